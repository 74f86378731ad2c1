"""Read and write presets: folders of configuration, weights and metadata."""

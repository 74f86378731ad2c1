"""Images: readers, generators and augmentation."""

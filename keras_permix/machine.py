"""The machine in words, for records of measurements."""

import os
import platform
from pathlib import Path


def machine():
    """Processor and cores this process may use, e.g. "Intel(R) Xeon(R) Processor, cores: 2"."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, cores: {cores}"

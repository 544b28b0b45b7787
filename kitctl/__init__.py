"""kitctl: pinned images, proven models and checked stacks for SGLang on one's own GPUs."""

__version__ = "0.1.0"

"""Fixtures that several folders of tests share."""

from gpuhost.fixtures import gpu_host, gpuless_host, nvlink_host

__all__ = ["gpu_host", "gpuless_host", "nvlink_host"]

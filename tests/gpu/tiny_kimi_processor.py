"""The processor of the small Kimi: the fields that SGLang reads of the real one; it prepares no images itself."""

from transformers import AutoTokenizer


class _MediaSettings:
    media_proc_cfg = {  # noqa: RUF012  # SGLang reads it as a plain class attribute
        "patch_size": 14,
        "merge_kernel_size": 2,
        "in_patch_limit": 16384,
        "patch_limit_on_one_side": 512,
        "fixed_output_tokens": None,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }


class TinyKimiProcessor:
    """Tokenizes text; carries the media settings."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.image_processor = None
        self.media_processor = _MediaSettings()

    @classmethod
    def register_for_auto_class(cls, *words, **named):
        return None

    @classmethod
    def from_pretrained(cls, path, *words, **named):
        return cls(AutoTokenizer.from_pretrained(path))

    def __call__(self, text=None, **named):
        return self.tokenizer(text, return_tensors="pt")

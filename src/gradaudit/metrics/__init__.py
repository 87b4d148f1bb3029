"""How close reconstructed records are to the true ones, matched one to one."""

from gradaudit.metrics.comparison import Comparison, Pair, compare
from gradaudit.metrics.matching import match
from gradaudit.metrics.quality import MAX_PSNR, psnr, ssim

__all__ = ["MAX_PSNR", "Comparison", "Pair", "compare", "match", "psnr", "ssim"]

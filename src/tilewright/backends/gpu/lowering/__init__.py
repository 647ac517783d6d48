"""From the gpu stage to PTX: one LLVM function for one thread of a CTA, and what LLVM's NVPTX target makes of it."""

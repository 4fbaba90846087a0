// The image for NVIDIA GPUs.
#include "kernels/simt/kernels.h"

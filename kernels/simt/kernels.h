// Every kernel of the set "kda".
#pragma once

#include "kernels/simt/chunk.h"
#include "kernels/simt/conv.h"
#include "kernels/simt/elementwise.h"
#include "kernels/simt/gate.h"
#include "kernels/simt/gemm.h"
#include "kernels/simt/norm.h"
#include "kernels/simt/recurrent.h"

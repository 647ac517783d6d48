// Another name of the header of these copies.
#pragma once
#pragma clang system_header
#include "cuda_pipeline_primitives.h"

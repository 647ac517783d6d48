// What nvcc's own headers include, so that host code may leave it out.
#pragma once
#pragma clang system_header
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#if __has_include(<__algorithm/max.h>)  // of libc++, whose <algorithm> has much more
#include <__algorithm/max.h>
#include <__algorithm/min.h>
#else
#include <algorithm>
#endif

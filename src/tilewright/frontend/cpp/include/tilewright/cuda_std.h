// The standard library under its name of libcu++. Device code calls functions of the host's here, so that one will do.
#pragma once
#pragma clang system_header

namespace std {}
namespace cuda::std {
using namespace ::std;
}

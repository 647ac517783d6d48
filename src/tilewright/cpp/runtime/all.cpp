// The runtime as one file.
#include "checks.cpp"
#include "device.cpp"
#include "graphs.cpp"
#include "launch.cpp"
#include "memory.cpp"
#include "simt.cpp"
#include "state.cpp"
#include "streams.cpp"

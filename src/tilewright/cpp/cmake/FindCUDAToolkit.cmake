# What projects ask the CUDA toolkit for: the runtime, the driver's interface and NVRTC, which `tilewright c++` links, and
# their headers.
set(CUDAToolkit_FOUND TRUE)
set(CUDAToolkit_VERSION 13.3)
set(CUDAToolkit_VERSION_MAJOR 13)
set(CUDAToolkit_VERSION_MINOR 3)
get_filename_component(CUDAToolkit_INCLUDE_DIRS "${CMAKE_CURRENT_LIST_DIR}/../../frontend/cpp/include" ABSOLUTE)
set(CUDAToolkit_INCLUDE_DIR "${CUDAToolkit_INCLUDE_DIRS}")
foreach(_name toolkit cudart cudart_static cuda_driver nvrtc nvrtc_static)
    if(NOT TARGET CUDA::${_name})
        add_library(CUDA::${_name} INTERFACE IMPORTED)
        target_include_directories(CUDA::${_name} SYSTEM INTERFACE "${CUDAToolkit_INCLUDE_DIRS}")
    endif()
endforeach()

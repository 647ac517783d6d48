# A CMake toolchain in which `tilewright c++` compiles CUDA and links what has it, for processors without a GPU:
#
#     cmake -G Ninja -DCMAKE_TOOLCHAIN_FILE=$(tilewright c++ -print-toolchain) ...
#
# C and C++ are compiled by the Clang that it uses, so that all files of a program have one standard library.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TILEWRIGHT TILEWRIGHT_COMPILER TILEWRIGHT_COMPILER_VERSION)
if(NOT TILEWRIGHT)
    # Beside the packages of an environment that is not activated.
    find_program(TILEWRIGHT tilewright HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../../../../bin" REQUIRED)
endif()
if(NOT TILEWRIGHT_COMPILER)
    execute_process(COMMAND "${TILEWRIGHT}" c++ -print-compiler OUTPUT_VARIABLE _found OUTPUT_STRIP_TRAILING_WHITESPACE
                    RESULT_VARIABLE _status)
    if(_status)
        message(FATAL_ERROR "tilewright finds no C++ compiler: pip install 'tilewright[cpp]'")
    endif()
    set(TILEWRIGHT_COMPILER "${_found}" CACHE STRING "The C and C++ compiler of tilewright")
endif()
list(GET TILEWRIGHT_COMPILER 0 _program)
list(LENGTH TILEWRIGHT_COMPILER _words)
if(_words GREATER 1)
    set(CMAKE_CXX_COMPILER "${_program}" c++)
    set(CMAKE_C_COMPILER "${_program}" cc)
    # Zig adds checks to what is not optimized, whose runtime such programs lack.
    set(CMAKE_CXX_FLAGS_INIT -fno-sanitize=undefined)
    set(CMAKE_C_FLAGS_INIT -fno-sanitize=undefined)
    # CMake would identify it by a program, for which Zig builds a C++ standard library that nothing else uses.
    if(NOT TILEWRIGHT_COMPILER_VERSION)
        execute_process(COMMAND ${TILEWRIGHT_COMPILER} --version OUTPUT_VARIABLE _found)
        string(REGEX MATCH "[0-9]+\\.[0-9.]+" _found "${_found}")
        set(TILEWRIGHT_COMPILER_VERSION "${_found}" CACHE STRING "The version of the compiler of tilewright")
    endif()
    set(CMAKE_CXX_COMPILER_ID Clang)
    set(CMAKE_CXX_COMPILER_ID_RUN TRUE)
    set(CMAKE_CXX_COMPILER_VERSION "${TILEWRIGHT_COMPILER_VERSION}")
    set(CMAKE_CXX_PLATFORM_ID Linux)
    set(CMAKE_CXX_STANDARD_COMPUTED_DEFAULT 17)
    set(CMAKE_CXX_EXTENSIONS_COMPUTED_DEFAULT ON)
else()
    set(CMAKE_CXX_COMPILER "${_program}")
    string(REPLACE "clang++" "clang" CMAKE_C_COMPILER "${_program}")
endif()

# What CMake would find in a program that identifies a compiler: `install` needs it for shared libraries.
set(CMAKE_EXECUTABLE_FORMAT ELF CACHE INTERNAL "Executable file format")
if(NOT DEFINED CMAKE_CXX_STANDARD)
    set(CMAKE_CXX_STANDARD 20)  # cuda_fp16.h and its like need it; those of the runtime and the driver do not
endif()

# Programs may call the compiler, too, as they would call nvcc.
set(CMAKE_CUDA_COMPILER "${CMAKE_BINARY_DIR}/tilewright/nvcc")
file(WRITE "${CMAKE_CUDA_COMPILER}" "#!/bin/sh\nexec \"${TILEWRIGHT}\" c++ \"$@\"\n")
file(CHMOD "${CMAKE_CUDA_COMPILER}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE)
set(TILEIRAS_EXECUTABLE "${CMAKE_CURRENT_LIST_DIR}/tileiras" CACHE FILEPATH "What programs call to assemble Tile IR")
set(CMAKE_CUDA_COMPILER_ID Tilewright)
set(CMAKE_CUDA_COMPILER_ID_RUN TRUE)
set(CMAKE_CUDA_COMPILER_FORCED TRUE)
set(CMAKE_CUDA_COMPILER_VERSION 13.3)
set(CMAKE_CUDA_PLATFORM_ID Linux)
set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "Not used: programs run on processors")
foreach(_name ALL ALL_MAJOR NATIVE)
    set(CMAKE_CUDA_ARCHITECTURES_${_name} 90)
endforeach()
set(CMAKE_CUDA_STANDARD_COMPUTED_DEFAULT 20)
set(CMAKE_CUDA_EXTENSIONS_COMPUTED_DEFAULT OFF)
set(CMAKE_CUDA_COMPILE_FEATURES)
foreach(_standard 03 11 14 17 20 23)
    set(CMAKE_CUDA${_standard}_COMPILE_FEATURES cuda_std_${_standard})
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_${_standard})
    # Headers of Tile C++ need C++20.
    set(_used ${_standard})
    if(_standard LESS 20)
        set(_used 20)
    endif()
    set(CMAKE_CUDA${_standard}_STANDARD_COMPILE_OPTION -std=c++${_used})
    set(CMAKE_CUDA${_standard}_EXTENSION_COMPILE_OPTION -std=gnu++${_used})
endforeach()

# Programs in C++ alone may call the runtime, too, as tuners do.
set(CMAKE_CXX_LINK_EXECUTABLE "\"${TILEWRIGHT}\" c++ <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
set(CMAKE_CXX_CREATE_SHARED_LIBRARY "\"${TILEWRIGHT}\" c++ -shared <LINK_FLAGS> -o <TARGET> <OBJECTS> <LINK_LIBRARIES>")
set(_CMAKE_CUDA_WHOLE_FLAG "-c")
set(_CMAKE_CUDA_RDC_FLAG "-rdc=true")  # of targets with CUDA_SEPARABLE_COMPILATION: all objects are alike
set(CMAKE_CUDA_COMPILE_OBJECT "<CMAKE_CUDA_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -c <SOURCE> -o <OBJECT>")
set(CMAKE_CUDA_LINK_EXECUTABLE "<CMAKE_CUDA_COMPILER> <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
set(CMAKE_CUDA_CREATE_SHARED_LIBRARY
    "<CMAKE_CUDA_COMPILER> -shared <LINK_FLAGS> -o <TARGET> <OBJECTS> <LINK_LIBRARIES>")
set(CMAKE_CUDA_DEPENDS_USE_COMPILER TRUE)
set(CMAKE_CUDA_DEPFILE_FORMAT gcc)
set(CMAKE_DEPFILE_FLAGS_CUDA "-MD -MT <DEP_TARGET> -MF <DEP_FILE>")
set(CMAKE_CUDA_RUNTIME_LIBRARY_DEFAULT None)

list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")

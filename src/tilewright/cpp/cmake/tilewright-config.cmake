# Libraries of kernels in Tile C++ for projects in C and C++, whatever compiles these:
#
#     find_package(tilewright REQUIRED)  # cmake -Dtilewright_DIR=$(tilewright c++ -print-cmake) ...
#     tilewright_add_library(kernels SOURCE kernels.cu KERNELS "scale_f32=scale<float, 64>")
#     target_link_libraries(program PRIVATE kernels)  # which may include "libkernels.h"
#
# KERNELS are the functions of the library, each with the kernel that it is; INCLUDE_DIRECTORIES and COMPILE_DEFINITIONS
# are those of the source file.
if(NOT TILEWRIGHT)
    find_program(TILEWRIGHT tilewright HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../../../../bin")
endif()
if(TILEWRIGHT AND NOT tilewright_COMPILER)
    execute_process(COMMAND "${TILEWRIGHT}" c++ -print-compiler OUTPUT_VARIABLE _found OUTPUT_STRIP_TRAILING_WHITESPACE
                    ERROR_QUIET RESULT_VARIABLE _status)
    if(NOT _status)
        set(tilewright_COMPILER "${_found}" CACHE STRING "The C++ compiler of tilewright")
    endif()
endif()
get_filename_component(tilewright_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../../frontend/cpp/include" ABSOLUTE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
    tilewright REQUIRED_VARS TILEWRIGHT tilewright_COMPILER tilewright_INCLUDE_DIR
    REASON_FAILURE_MESSAGE "the command tilewright and its compiler are those of: pip install 'tilewright[cpp]'")

function(tilewright_add_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "SOURCE" "KERNELS;INCLUDE_DIRECTORIES;COMPILE_DEFINITIONS")
    if(NOT arg_SOURCE OR NOT arg_KERNELS OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "tilewright_add_library(NAME SOURCE FILE KERNELS SYMBOL=NAME...)")
    endif()
    get_filename_component(source "${arg_SOURCE}" ABSOLUTE)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/tilewright/${name}")
    set(library "${folder}/lib${name}${CMAKE_SHARED_LIBRARY_SUFFIX}")
    file(MAKE_DIRECTORY "${folder}")
    set(words)
    foreach(kernel IN LISTS arg_KERNELS)
        list(APPEND words -kernel "${kernel}")
    endforeach()
    foreach(path IN LISTS arg_INCLUDE_DIRECTORIES)
        get_filename_component(path "${path}" ABSOLUTE)
        list(APPEND words -I "${path}")
    endforeach()
    foreach(macro IN LISTS arg_COMPILE_DEFINITIONS)
        list(APPEND words -D "${macro}")
    endforeach()
    add_custom_command(
        OUTPUT "${library}" "${folder}/lib${name}.h"
        COMMAND "${TILEWRIGHT}" c++ ${words} "${source}" -o "${library}" -MD -MF "${library}.d"
        DEPENDS "${source}" DEPFILE "${library}.d" COMMENT "Building the kernels ${name}" VERBATIM)
    add_custom_target(${name}_kernels DEPENDS "${library}")
    add_library(${name} SHARED IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${library}" IMPORTED_NO_SONAME TRUE
                          INTERFACE_INCLUDE_DIRECTORIES "${folder}")
    add_dependencies(${name} ${name}_kernels)
endfunction()

// The part of the CUDA runtime that host code next to tile kernels uses: declarations only. Nothing here is called
// from a kernel.
#pragma once
#pragma clang system_header

typedef enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 } cudaError_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};
typedef struct CUstream_st* cudaStream_t;

extern "C" {
cudaError_t cudaMalloc(void** address, size_t size);
cudaError_t cudaFree(void* address);
cudaError_t cudaMemcpy(void* target, void const* source, size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* address, int value, size_t size);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaGetLastError();
char const* cudaGetErrorString(cudaError_t error);
cudaError_t cudaLaunchKernel(void const* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream);
}
template <typename T>
cudaError_t cudaMalloc(T** address, size_t size) {
    return cudaMalloc(reinterpret_cast<void**>(address), size);
}

entry @multimem(%arg0: tile<ptr<f32, <multicast>>>) {
  %cst_0_i32 = constant <i32: 0> : tile<i32>
  %cst_0_f32 = constant <f32: 0.000000e+00> : tile<4x8xf32>
  %tview = make_tensor_view %arg0, shape = [64, 64], strides = [64, 1] : tile<ptr<f32, <multicast>>> -> tensor_view<64x64xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>
  %pview = make_partition_view %tview : partition_view<tile=(4x8), tensor_view<64x64xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>
  %0 = make_token : token
  %reduced_values, %result_token = multimem_load_reduce_view_tko weak %pview[%cst_0_i32, %cst_0_i32]  : partition_view<tile=(4x8), tensor_view<64x64xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>, tile<i32> -> tile<4x8xf32>, token
  %reduced_values_0, %result_token_1 = multimem_load_reduce_view_tko relaxed sys %pview[%cst_0_i32, %cst_0_i32] token = %0 inbounds = [true, false] : partition_view<tile=(4x8), tensor_view<64x64xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>, tile<i32>, token -> tile<4x8xf32>, token
  %1 = multimem_reduce_view_tko relaxed device %pview, %cst_0_f32[%cst_0_i32, %cst_0_i32]  : partition_view<tile=(4x8), tensor_view<64x64xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>, tile<4x8xf32>, tile<i32> -> token
  %2 = multimem_store_view_tko weak %pview, %cst_0_f32[%cst_0_i32, %cst_0_i32] token = %0 inbounds = [false, true] : partition_view<tile=(4x8), tensor_view<64x64xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>, tile<4x8xf32>, tile<i32>, token -> token
  return
}

entry @mm_Kt1_A2f32_1l0_2t1_3i16_p16_A2f32_1l0_2t1_3i16_p16_A2f32_1l0_2t1_3i16_p16_Si32_I32(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<i32>, %arg4: tile<i32>, %arg5: tile<ptr<f32>>, %arg6: tile<i32>, %arg7: tile<i32>, %arg8: tile<i32>, %arg9: tile<i32>, %arg10: tile<ptr<f32>>, %arg11: tile<i32>, %arg12: tile<i32>, %arg13: tile<i32>, %arg14: tile<i32>, %arg15: tile<i32>) optimization_hints=<sm_100 = {}> {
  %0 = make_token : token
  %assume = assume div_by<16>, %arg0 : tile<ptr<f32>>
  %assume_0 = assume div_by<16>, %arg1 : tile<i32>
  %assume_1 = assume div_by<16>, %arg2 : tile<i32>
  %assume_2 = assume div_by<16>, %arg5 : tile<ptr<f32>>
  %assume_3 = assume div_by<16>, %arg6 : tile<i32>
  %assume_4 = assume div_by<16>, %arg7 : tile<i32>
  %assume_5 = assume div_by<16>, %arg10 : tile<ptr<f32>>
  %assume_6 = assume div_by<16>, %arg11 : tile<i32>
  %assume_7 = assume div_by<16>, %arg12 : tile<i32>
  %cst_1_i32 = constant <i32: 1> : tile<i32>
  %cst_1_i32_8 = constant <i32: 1> : tile<i32>
  %cst_1_i32_9 = constant <i32: 1> : tile<i32>
  %assume_assume = assume bounded<0, ?>, %assume_0 : tile<i32>
  %assume_assume_assume = assume div_by<16>, %assume_assume : tile<i32>
  %assume_assume_10 = assume bounded<0, ?>, %assume_1 : tile<i32>
  %assume_assume_assume_11 = assume div_by<16>, %assume_assume_10 : tile<i32>
  %assume_12 = assume bounded<0, ?>, %arg3 : tile<i32>
  %tview = make_tensor_view %assume, shape = [%assume_assume_assume, %assume_assume_assume_11], strides = [%assume_12, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %assume_assume_13 = assume bounded<0, ?>, %assume_3 : tile<i32>
  %assume_assume_assume_14 = assume div_by<16>, %assume_assume_13 : tile<i32>
  %assume_assume_15 = assume bounded<0, ?>, %assume_4 : tile<i32>
  %assume_assume_assume_16 = assume div_by<16>, %assume_assume_15 : tile<i32>
  %assume_17 = assume bounded<0, ?>, %arg8 : tile<i32>
  %tview_18 = make_tensor_view %assume_2, shape = [%assume_assume_assume_14, %assume_assume_assume_16], strides = [%assume_17, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %assume_assume_19 = assume bounded<0, ?>, %assume_6 : tile<i32>
  %assume_assume_assume_20 = assume div_by<16>, %assume_assume_19 : tile<i32>
  %assume_assume_21 = assume bounded<0, ?>, %assume_7 : tile<i32>
  %assume_assume_assume_22 = assume div_by<16>, %assume_assume_21 : tile<i32>
  %assume_23 = assume bounded<0, ?>, %arg13 : tile<i32>
  %tview_24 = make_tensor_view %assume_5, shape = [%assume_assume_assume_20, %assume_assume_assume_22], strides = [%assume_23, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %blockId_x_25, %blockId_y_26, %blockId_z_27 = get_tile_block_id : tile<i32>
  %cst_0_f32 = constant <f32: 0.000000e+00> : tile<32x32xf32>
  %pview = make_partition_view %tview : partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>
  %1:2 = get_index_space_shape %pview : partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>> -> tile<i32>
  %cst_0_i32 = constant <i32: 0> : tile<i32>
  %cst_1_i32_28 = constant <i32: 1> : tile<i32>
  %for = for %loopIdx in (%cst_0_i32 to %1#1, step %cst_1_i32_28) : tile<i32> iter_values(%iterArg0 = %cst_0_f32) -> (tile<32x32xf32>) {
    %pview_55 = make_partition_view %tview : partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>
    %tile, %result_token = load_view_tko weak %pview_55[%blockId_x, %loopIdx] token = %0 optimization_hints = <sm_100 = {latency = 4}> : partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<32x32xf32>, token
    %pview_56 = make_partition_view %tview_18 : partition_view<tile=(32x32), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %tile_57, %result_token_58 = load_view_tko weak %pview_56[%loopIdx, %blockId_y_26] token = %0 optimization_hints = <sm_100 = {allow_tma = false}> : partition_view<tile=(32x32), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<32x32xf32>, token
    %22 = mmaf %tile, %tile_57, %iterArg0 : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32>
    continue %22 : tile<32x32xf32>
  }
  %pview_29 = make_partition_view %tview_24 : partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>
  %2 = store_view_tko weak %for, %pview_29[%blockId_x, %blockId_y_26] token = %0 : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
  %reduce = reduce %for dim=1 identities=[0.000000e+00 : f32] : tile<32x32xf32> -> tile<32xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %22 = addf %reduce_lhs, %reduce_rhs  : tile<f32>
    yield %22 : tile<f32>
  }
  %reduce_30 = reduce %for dim=0 identities=[0xFF800000 : f32] : tile<32x32xf32> -> tile<32xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %22 = maxf %reduce_lhs, %reduce_rhs : tile<f32>
    yield %22 : tile<f32>
  }
  %3 = iota : tile<32xi32>
  %reshape = reshape %3 : tile<32xi32> -> tile<1x32xi32>
  %bcast = broadcast %reshape : tile<1x32xi32> -> tile<32x32xi32>
  %reduce_31:2 = reduce %for, %bcast dim=1 identities=[0xFF800000 : f32, 0 : i32] : tile<32x32xf32>, tile<32x32xi32> -> tile<32xf32>, tile<32xi32> 
  (%reduce_lhs0: tile<f32>, %reduce_rhs0: tile<f32>, %reduce_lhs1: tile<i32>, %reduce_rhs1: tile<i32>) {
    %22 = cmpf greater_than ordered %reduce_lhs0, %reduce_rhs0 : tile<f32> -> tile<i1>
    %23 = cmpf equal ordered %reduce_lhs0, %reduce_rhs0 : tile<f32> -> tile<i1>
    %24 = cmpf not_equal unordered %reduce_lhs0, %reduce_lhs0 : tile<f32> -> tile<i1>
    %25 = cmpf not_equal unordered %reduce_rhs0, %reduce_rhs0 : tile<f32> -> tile<i1>
    %26 = cmpf equal ordered %reduce_lhs0, %reduce_lhs0 : tile<f32> -> tile<i1>
    %27 = andi %26, %25 : tile<i1>
    %28 = ori %22, %27 : tile<i1>
    %29 = andi %24, %25 : tile<i1>
    %30 = ori %23, %29 : tile<i1>
    %31 = cmpi less_than %reduce_lhs1, %reduce_rhs1, signed : tile<i32> -> tile<i1>
    %32 = andi %30, %31 : tile<i1>
    %33 = ori %28, %32 : tile<i1>
    %34 = select %33, %reduce_lhs0, %reduce_rhs0 : tile<i1>, tile<f32>
    %35 = select %33, %reduce_lhs1, %reduce_rhs1 : tile<i1>, tile<i32>
    yield %34, %35 : tile<f32>, tile<i32>
  }
  %4 = scan %for dim=1 reverse=false identities=[0.000000e+00 : f32] : tile<32x32xf32> -> tile<32x32xf32> 
  (%arg16: tile<f32>, %arg17: tile<f32>) {
    %22 = addf %arg16, %arg17  : tile<f32>
    yield %22 : tile<f32>
  }
  %reduce_32 = reduce %for dim=0 identities=[1.000000e+00 : f32] : tile<32x32xf32> -> tile<32xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %22 = mulf %reduce_lhs, %reduce_rhs  : tile<f32>
    yield %22 : tile<f32>
  }
  %reduce_33 = reduce %reduce_32 dim=0 identities=[1.000000e+00 : f32] : tile<32xf32> -> tile<f32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %22 = mulf %reduce_lhs, %reduce_rhs  : tile<f32>
    yield %22 : tile<f32>
  }
  %cst_1_f32 = constant <f32: 1.000000e+00> : tile<f32>
  %reduce_34 = reduce %for dim=1 identities=[0.000000e+00 : f32] : tile<32x32xf32> -> tile<32xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %22 = fma %reduce_lhs, %reduce_rhs, %cst_1_f32  : tile<f32>
    yield %22 : tile<f32>
  }
  %5 = permute %for [1, 0] : tile<32x32xf32> -> tile<32x32xf32>
  %cst_0_i32_35 = constant <i32: 0> : tile<i32>
  %cst_0_i32_36 = constant <i32: 0> : tile<i32>
  %6 = extract %for[%cst_0_i32_35, %cst_0_i32_36] : tile<32x32xf32> -> tile<16x16xf32>
  %7 = cat %for, %5 dim = 0 : tile<32x32xf32>, tile<32x32xf32> -> tile<64x32xf32>
  %reshape_37 = reshape %for : tile<32x32xf32> -> tile<1024xf32>
  %reshape_38 = reshape %reduce : tile<32xf32> -> tile<32x1xf32>
  %bcast_39 = broadcast %reshape_38 : tile<32x1xf32> -> tile<32x32xf32>
  %8 = fma %for, %bcast_39, %4  : tile<32x32xf32>
  %9 = addf %8, %5  : tile<32x32xf32>
  %reshape_40 = reshape %reduce_33 : tile<f32> -> tile<1x1xf32>
  %bcast_41 = broadcast %reshape_40 : tile<1x1xf32> -> tile<32x32xf32>
  %10 = addf %9, %bcast_41  : tile<32x32xf32>
  %reshape_42 = reshape %reduce_34 : tile<32xf32> -> tile<1x32xf32>
  %bcast_43 = broadcast %reshape_42 : tile<1x32xf32> -> tile<32x32xf32>
  %11 = addf %10, %bcast_43  : tile<32x32xf32>
  %reshape_44 = reshape %reduce_30 : tile<32xf32> -> tile<1x32xf32>
  %bcast_45 = broadcast %reshape_44 : tile<1x32xf32> -> tile<32x32xf32>
  %12 = addf %11, %bcast_45  : tile<32x32xf32>
  %13 = itof %reduce_31#1 signed  : tile<32xi32> -> tile<32xf32>
  %reshape_46 = reshape %13 : tile<32xf32> -> tile<1x32xf32>
  %bcast_47 = broadcast %reshape_46 : tile<1x32xf32> -> tile<32x32xf32>
  %14 = addf %12, %bcast_47  : tile<32x32xf32>
  %reshape_48 = reshape %reshape_37 : tile<1024xf32> -> tile<32x32xf32>
  %15 = addf %14, %reshape_48  : tile<32x32xf32>
  %cst_0_i32_49 = constant <i32: 0> : tile<i32>
  %cst_0_i32_50 = constant <i32: 0> : tile<i32>
  %16 = extract %7[%cst_0_i32_49, %cst_0_i32_50] : tile<64x32xf32> -> tile<32x32xf32>
  %17 = addf %15, %16  : tile<32x32xf32>
  %pview_51 = make_partition_view %tview_24 : partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>
  %18 = store_view_tko weak %17, %pview_51[%blockId_x, %blockId_y_26] token = %2 : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
  %19 = cat %6, %6 dim = 0 : tile<16x16xf32>, tile<16x16xf32> -> tile<32x16xf32>
  %cst_0_i32_52 = constant <i32: 0> : tile<i32>
  %cst_0_i32_53 = constant <i32: 0> : tile<i32>
  %20 = extract %19[%cst_0_i32_52, %cst_0_i32_53] : tile<32x16xf32> -> tile<16x16xf32>
  %pview_54 = make_partition_view %tview_24 : partition_view<tile=(16x16), tensor_view<?x?xf32, strides=[?,1]>>
  %21 = store_view_tko weak %20, %pview_54[%blockId_y_26, %blockId_x] token = %18 : tile<16x16xf32>, partition_view<tile=(16x16), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
  return
}
entry @mm_Kt1_A2f16_1l0_2t1_p16_A2f16_1l0_2t1_p16_A2f16_1l0_2t1_p16_Si32_I16(%arg0: tile<ptr<f16>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<i32>, %arg4: tile<i32>, %arg5: tile<ptr<f16>>, %arg6: tile<i32>, %arg7: tile<i32>, %arg8: tile<i32>, %arg9: tile<i32>, %arg10: tile<ptr<f16>>, %arg11: tile<i32>, %arg12: tile<i32>, %arg13: tile<i32>, %arg14: tile<i32>, %arg15: tile<i32>) optimization_hints=<sm_100 = {}> {
  %0 = make_token : token
  %assume = assume div_by<16>, %arg0 : tile<ptr<f16>>
  %assume_0 = assume div_by<16>, %arg5 : tile<ptr<f16>>
  %assume_1 = assume div_by<16>, %arg10 : tile<ptr<f16>>
  %cst_1_i32 = constant <i32: 1> : tile<i32>
  %cst_1_i32_2 = constant <i32: 1> : tile<i32>
  %cst_1_i32_3 = constant <i32: 1> : tile<i32>
  %assume_4 = assume bounded<0, ?>, %arg1 : tile<i32>
  %assume_5 = assume bounded<0, ?>, %arg2 : tile<i32>
  %assume_6 = assume bounded<0, ?>, %arg3 : tile<i32>
  %tview = make_tensor_view %assume, shape = [%assume_4, %assume_5], strides = [%assume_6, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
  %assume_7 = assume bounded<0, ?>, %arg6 : tile<i32>
  %assume_8 = assume bounded<0, ?>, %arg7 : tile<i32>
  %assume_9 = assume bounded<0, ?>, %arg8 : tile<i32>
  %tview_10 = make_tensor_view %assume_0, shape = [%assume_7, %assume_8], strides = [%assume_9, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
  %assume_11 = assume bounded<0, ?>, %arg11 : tile<i32>
  %assume_12 = assume bounded<0, ?>, %arg12 : tile<i32>
  %assume_13 = assume bounded<0, ?>, %arg13 : tile<i32>
  %tview_14 = make_tensor_view %assume_1, shape = [%assume_11, %assume_12], strides = [%assume_13, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %blockId_x_15, %blockId_y_16, %blockId_z_17 = get_tile_block_id : tile<i32>
  %cst_0_f32 = constant <f32: 0.000000e+00> : tile<16x16xf32>
  %pview = make_partition_view %tview : partition_view<tile=(16x16), tensor_view<?x?xf16, strides=[?,1]>>
  %1:2 = get_index_space_shape %pview : partition_view<tile=(16x16), tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
  %cst_0_i32 = constant <i32: 0> : tile<i32>
  %cst_1_i32_18 = constant <i32: 1> : tile<i32>
  %for = for %loopIdx in (%cst_0_i32 to %1#1, step %cst_1_i32_18) : tile<i32> iter_values(%iterArg0 = %cst_0_f32) -> (tile<16x16xf32>) {
    %pview_45 = make_partition_view %tview : partition_view<tile=(16x16), tensor_view<?x?xf16, strides=[?,1]>>
    %tile, %result_token = load_view_tko weak %pview_45[%blockId_x, %loopIdx] token = %0 optimization_hints = <sm_100 = {latency = 4}> : partition_view<tile=(16x16), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<16x16xf16>, token
    %pview_46 = make_partition_view %tview_10 : partition_view<tile=(16x16), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %tile_47, %result_token_48 = load_view_tko weak %pview_46[%loopIdx, %blockId_y_16] token = %0 optimization_hints = <sm_100 = {allow_tma = false}> : partition_view<tile=(16x16), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<16x16xf16>, token
    %25 = mmaf %tile, %tile_47, %iterArg0 : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
    continue %25 : tile<16x16xf32>
  }
  %2 = ftof %for  : tile<16x16xf32> -> tile<16x16xf16>
  %pview_19 = make_partition_view %tview_14 : partition_view<tile=(16x16), tensor_view<?x?xf16, strides=[?,1]>>
  %3 = store_view_tko weak %2, %pview_19[%blockId_x, %blockId_y_16] token = %0 : tile<16x16xf16>, partition_view<tile=(16x16), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
  %reduce = reduce %for dim=1 identities=[0.000000e+00 : f32] : tile<16x16xf32> -> tile<16xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %25 = addf %reduce_lhs, %reduce_rhs  : tile<f32>
    yield %25 : tile<f32>
  }
  %reduce_20 = reduce %for dim=0 identities=[0xFF800000 : f32] : tile<16x16xf32> -> tile<16xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %25 = maxf %reduce_lhs, %reduce_rhs : tile<f32>
    yield %25 : tile<f32>
  }
  %4 = iota : tile<16xi32>
  %reshape = reshape %4 : tile<16xi32> -> tile<1x16xi32>
  %bcast = broadcast %reshape : tile<1x16xi32> -> tile<16x16xi32>
  %reduce_21:2 = reduce %for, %bcast dim=1 identities=[0xFF800000 : f32, 0 : i32] : tile<16x16xf32>, tile<16x16xi32> -> tile<16xf32>, tile<16xi32> 
  (%reduce_lhs0: tile<f32>, %reduce_rhs0: tile<f32>, %reduce_lhs1: tile<i32>, %reduce_rhs1: tile<i32>) {
    %25 = cmpf greater_than ordered %reduce_lhs0, %reduce_rhs0 : tile<f32> -> tile<i1>
    %26 = cmpf equal ordered %reduce_lhs0, %reduce_rhs0 : tile<f32> -> tile<i1>
    %27 = cmpf not_equal unordered %reduce_lhs0, %reduce_lhs0 : tile<f32> -> tile<i1>
    %28 = cmpf not_equal unordered %reduce_rhs0, %reduce_rhs0 : tile<f32> -> tile<i1>
    %29 = cmpf equal ordered %reduce_lhs0, %reduce_lhs0 : tile<f32> -> tile<i1>
    %30 = andi %29, %28 : tile<i1>
    %31 = ori %25, %30 : tile<i1>
    %32 = andi %27, %28 : tile<i1>
    %33 = ori %26, %32 : tile<i1>
    %34 = cmpi less_than %reduce_lhs1, %reduce_rhs1, signed : tile<i32> -> tile<i1>
    %35 = andi %33, %34 : tile<i1>
    %36 = ori %31, %35 : tile<i1>
    %37 = select %36, %reduce_lhs0, %reduce_rhs0 : tile<i1>, tile<f32>
    %38 = select %36, %reduce_lhs1, %reduce_rhs1 : tile<i1>, tile<i32>
    yield %37, %38 : tile<f32>, tile<i32>
  }
  %5 = scan %for dim=1 reverse=false identities=[0.000000e+00 : f32] : tile<16x16xf32> -> tile<16x16xf32> 
  (%arg16: tile<f32>, %arg17: tile<f32>) {
    %25 = addf %arg16, %arg17  : tile<f32>
    yield %25 : tile<f32>
  }
  %reduce_22 = reduce %for dim=0 identities=[1.000000e+00 : f32] : tile<16x16xf32> -> tile<16xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %25 = mulf %reduce_lhs, %reduce_rhs  : tile<f32>
    yield %25 : tile<f32>
  }
  %reduce_23 = reduce %reduce_22 dim=0 identities=[1.000000e+00 : f32] : tile<16xf32> -> tile<f32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %25 = mulf %reduce_lhs, %reduce_rhs  : tile<f32>
    yield %25 : tile<f32>
  }
  %cst_1_f32 = constant <f32: 1.000000e+00> : tile<f32>
  %reduce_24 = reduce %for dim=1 identities=[0.000000e+00 : f32] : tile<16x16xf32> -> tile<16xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %25 = fma %reduce_lhs, %reduce_rhs, %cst_1_f32  : tile<f32>
    yield %25 : tile<f32>
  }
  %6 = permute %for [1, 0] : tile<16x16xf32> -> tile<16x16xf32>
  %cst_0_i32_25 = constant <i32: 0> : tile<i32>
  %cst_0_i32_26 = constant <i32: 0> : tile<i32>
  %7 = extract %for[%cst_0_i32_25, %cst_0_i32_26] : tile<16x16xf32> -> tile<8x8xf32>
  %8 = cat %for, %6 dim = 0 : tile<16x16xf32>, tile<16x16xf32> -> tile<32x16xf32>
  %reshape_27 = reshape %for : tile<16x16xf32> -> tile<256xf32>
  %reshape_28 = reshape %reduce : tile<16xf32> -> tile<16x1xf32>
  %bcast_29 = broadcast %reshape_28 : tile<16x1xf32> -> tile<16x16xf32>
  %9 = fma %for, %bcast_29, %5  : tile<16x16xf32>
  %10 = addf %9, %6  : tile<16x16xf32>
  %reshape_30 = reshape %reduce_23 : tile<f32> -> tile<1x1xf32>
  %bcast_31 = broadcast %reshape_30 : tile<1x1xf32> -> tile<16x16xf32>
  %11 = addf %10, %bcast_31  : tile<16x16xf32>
  %reshape_32 = reshape %reduce_24 : tile<16xf32> -> tile<1x16xf32>
  %bcast_33 = broadcast %reshape_32 : tile<1x16xf32> -> tile<16x16xf32>
  %12 = addf %11, %bcast_33  : tile<16x16xf32>
  %reshape_34 = reshape %reduce_20 : tile<16xf32> -> tile<1x16xf32>
  %bcast_35 = broadcast %reshape_34 : tile<1x16xf32> -> tile<16x16xf32>
  %13 = addf %12, %bcast_35  : tile<16x16xf32>
  %14 = itof %reduce_21#1 signed  : tile<16xi32> -> tile<16xf32>
  %reshape_36 = reshape %14 : tile<16xf32> -> tile<1x16xf32>
  %bcast_37 = broadcast %reshape_36 : tile<1x16xf32> -> tile<16x16xf32>
  %15 = addf %13, %bcast_37  : tile<16x16xf32>
  %reshape_38 = reshape %reshape_27 : tile<256xf32> -> tile<16x16xf32>
  %16 = addf %15, %reshape_38  : tile<16x16xf32>
  %cst_0_i32_39 = constant <i32: 0> : tile<i32>
  %cst_0_i32_40 = constant <i32: 0> : tile<i32>
  %17 = extract %8[%cst_0_i32_39, %cst_0_i32_40] : tile<32x16xf32> -> tile<16x16xf32>
  %18 = addf %16, %17  : tile<16x16xf32>
  %19 = ftof %18  : tile<16x16xf32> -> tile<16x16xf16>
  %pview_41 = make_partition_view %tview_14 : partition_view<tile=(16x16), tensor_view<?x?xf16, strides=[?,1]>>
  %20 = store_view_tko weak %19, %pview_41[%blockId_x, %blockId_y_16] token = %3 : tile<16x16xf16>, partition_view<tile=(16x16), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
  %21 = cat %7, %7 dim = 0 : tile<8x8xf32>, tile<8x8xf32> -> tile<16x8xf32>
  %cst_0_i32_42 = constant <i32: 0> : tile<i32>
  %cst_0_i32_43 = constant <i32: 0> : tile<i32>
  %22 = extract %21[%cst_0_i32_42, %cst_0_i32_43] : tile<16x8xf32> -> tile<8x8xf32>
  %23 = ftof %22  : tile<8x8xf32> -> tile<8x8xf16>
  %pview_44 = make_partition_view %tview_14 : partition_view<tile=(8x8), tensor_view<?x?xf16, strides=[?,1]>>
  %24 = store_view_tko weak %23, %pview_44[%blockId_y_16, %blockId_x] token = %20 : tile<8x8xf16>, partition_view<tile=(8x8), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
  return
}

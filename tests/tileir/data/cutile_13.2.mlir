entry @elem_Kt1_A1f32_1i16t1_p16_A1f32_1i16t1_p16_A1f32_1i16t1_p16_Si32_I128(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<ptr<f32>>, %arg4: tile<i32>, %arg5: tile<i32>, %arg6: tile<ptr<f32>>, %arg7: tile<i32>, %arg8: tile<i32>, %arg9: tile<i32>) optimization_hints=<sm_100 = {}> {
  %0 = make_token : token
  %assume = assume div_by<16>, %arg0 : tile<ptr<f32>>
  %assume_0 = assume div_by<16>, %arg1 : tile<i32>
  %assume_1 = assume div_by<16>, %arg3 : tile<ptr<f32>>
  %assume_2 = assume div_by<16>, %arg4 : tile<i32>
  %assume_3 = assume div_by<16>, %arg6 : tile<ptr<f32>>
  %assume_4 = assume div_by<16>, %arg7 : tile<i32>
  %cst_1_i32 = constant <i32: 1> : tile<i32>
  %cst_1_i32_5 = constant <i32: 1> : tile<i32>
  %cst_1_i32_6 = constant <i32: 1> : tile<i32>
  %assume_assume = assume bounded<0, ?>, %assume_0 : tile<i32>
  %assume_assume_assume = assume div_by<16>, %assume_assume : tile<i32>
  %tview = make_tensor_view %assume, shape = [%assume_assume_assume], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %assume_assume_7 = assume bounded<0, ?>, %assume_2 : tile<i32>
  %assume_assume_assume_8 = assume div_by<16>, %assume_assume_7 : tile<i32>
  %tview_9 = make_tensor_view %assume_1, shape = [%assume_assume_assume_8], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %assume_assume_10 = assume bounded<0, ?>, %assume_4 : tile<i32>
  %assume_assume_assume_11 = assume div_by<16>, %assume_assume_10 : tile<i32>
  %tview_12 = make_tensor_view %assume_3, shape = [%assume_assume_assume_11], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %pview = make_partition_view %tview : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
  %tile, %result_token = load_view_tko weak %pview[%blockId_x] token = %0 : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
  %1 = join_tokens %0, %result_token : token
  %pview_13 = make_partition_view %tview_9 : partition_view<tile=(128), padding_value = neg_inf, tensor_view<?xf32, strides=[1]>>
  %tile_14, %result_token_15 = load_view_tko weak %pview_13[%blockId_x] token = %0 : partition_view<tile=(128), padding_value = neg_inf, tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
  %2 = join_tokens %0, %result_token_15 : token
  %3 = addf %tile, %tile_14  : tile<128xf32>
  %4 = negf %tile : tile<128xf32>
  %5 = fma %4, %tile_14, %3  : tile<128xf32>
  %6 = divf %5, %tile  : tile<128xf32>
  %7 = divf %6, %tile_14 rounding<approx> : tile<128xf32>
  %8 = sqrt %7  : tile<128xf32>
  %9 = exp %7  : tile<128xf32>
  %10 = addf %8, %9  : tile<128xf32>
  %11 = exp2 %7 : tile<128xf32>
  %12 = addf %10, %11  : tile<128xf32>
  %13 = log %7 : tile<128xf32>
  %14 = addf %12, %13  : tile<128xf32>
  %15 = log2 %7 : tile<128xf32>
  %16 = addf %14, %15  : tile<128xf32>
  %17 = sin %7 : tile<128xf32>
  %18 = cos %7 : tile<128xf32>
  %19 = fma %17, %18, %16  : tile<128xf32>
  %20 = tan %7 : tile<128xf32>
  %21 = addf %19, %20  : tile<128xf32>
  %22 = sinh %7 : tile<128xf32>
  %23 = addf %21, %22  : tile<128xf32>
  %24 = cosh %7 : tile<128xf32>
  %25 = addf %23, %24  : tile<128xf32>
  %26 = tanh %7  : tile<128xf32>
  %27 = addf %25, %26  : tile<128xf32>
  %28 = rsqrt %7 : tile<128xf32>
  %29 = addf %27, %28  : tile<128xf32>
  %30 = floor %7 : tile<128xf32>
  %31 = addf %29, %30  : tile<128xf32>
  %32 = ceil %7 : tile<128xf32>
  %33 = addf %31, %32  : tile<128xf32>
  %34 = absf %7 : tile<128xf32>
  %35 = addf %33, %34  : tile<128xf32>
  %36 = negf %7 : tile<128xf32>
  %37 = addf %35, %36  : tile<128xf32>
  %38 = fpowf %tile, %tile_14 : tile<128xf32>
  %39 = addf %37, %38  : tile<128xf32>
  %40 = atan2 %tile, %tile_14 : tile<128xf32>
  %41 = addf %39, %40  : tile<128xf32>
  %42 = addf %41, %tile_14 rounding<zero> flush_to_zero : tile<128xf32>
  %43 = cmpf less_than ordered %tile, %tile_14 : tile<128xf32> -> tile<128xi1>
  %44 = select %43, %42, %tile : tile<128xi1>, tile<128xf32>
  %45 = minf %tile, %tile_14 : tile<128xf32>
  %46 = maxf %44, %45 : tile<128xf32>
  %47 = remf %46, %tile_14 : tile<128xf32>
  %cst_0_f32 = constant <f32: 0.000000e+00> : tile<128xf32>
  %48 = cmpf less_than ordered %47, %cst_0_f32 : tile<128xf32> -> tile<128xi1>
  %49 = cmpf less_than ordered %tile_14, %cst_0_f32 : tile<128xf32> -> tile<128xi1>
  %50 = xori %48, %49 : tile<128xi1>
  %51 = cmpf not_equal unordered %47, %cst_0_f32 : tile<128xf32> -> tile<128xi1>
  %52 = andi %50, %51 : tile<128xi1>
  %53 = addf %47, %tile_14  : tile<128xf32>
  %54 = select %52, %53, %47 : tile<128xi1>, tile<128xf32>
  %pview_16 = make_partition_view %tview_12 : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
  %55 = store_view_tko weak %54, %pview_16[%blockId_x] token = %0 : tile<128xf32>, partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
  %56 = cmpf less_than ordered %tile, %tile_14 : tile<128xf32> -> tile<128xi1>
  assert %56, "boo" : tile<128xi1>
  %57 = join_tokens %0, %1, %2, %55 : token
  %58 = print_tko "hi %f %d\0A", %54, %blockId_x token=%57 : tile<128xf32>, tile<i32> -> token
  return
}

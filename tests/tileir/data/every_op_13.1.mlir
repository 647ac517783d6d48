global  @table alignment = 16 <f32: [1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tile<4xf32>
global  @zeros <i8: 0> : tile<64xi8>
entry @every(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<f64>, %arg3: tile<ptr<i32>>, %arg4: tile<i64>, %arg5: tile<ptr<f16>>) optimization_hints=<sm_100 = {num_cta_in_cga = 2, occupancy = 4}> {
  %cst_0_f32 = constant <f32: 0.000000e+00> : tile<4x8xf32>
  %cst_f32 = constant <f32: [[0.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 5.000000e+00, 6.000000e+00, 7.000000e+00], [8.000000e+00, 9.000000e+00, 1.000000e+01, 1.100000e+01, 1.200000e+01, 1.300000e+01, 1.400000e+01, 1.500000e+01], [1.600000e+01, 1.700000e+01, 1.800000e+01, 1.900000e+01, 2.000000e+01, 2.100000e+01, 2.200000e+01, 2.300000e+01], [2.400000e+01, 2.500000e+01, 2.600000e+01, 2.700000e+01, 2.800000e+01, 2.900000e+01, 3.000000e+01, 3.100000e+01]]> : tile<4x8xf32>
  %cst_0_f16 = constant <f16: 0.000000e+00> : tile<4x8xf16>
  %cst_f64 = constant <f64: 0xFFF0000000000000> : tile<4x8xf64>
  %cst_5_i32 = constant <i32: 5> : tile<4x8xi32>
  %true = constant <i1: true> : tile<4x8xi1>
  %cst_-1_i32 = constant <i32: -1> : tile<i32>
  %false = constant <i1: false> : tile<2xi1>
  %cst_i1 = constant <i1: [true, false, true, false]> : tile<4xi1>
  %true_0 = constant <i1: true> : tile<i1>
  %cst_0_i8 = constant <i8: 0> : tile<2xi8>
  %cst_i8 = constant <i8: [1, 2, 3, 4]> : tile<4xi8>
  %cst_127_i8 = constant <i8: 127> : tile<i8>
  %cst_0_i16 = constant <i16: 0> : tile<2xi16>
  %cst_i16 = constant <i16: [513, 1027, 1541, 2055]> : tile<4xi16>
  %cst_32639_i16 = constant <i16: 32639> : tile<i16>
  %cst_0_i32 = constant <i32: 0> : tile<2xi32>
  %cst_i32 = constant <i32: [67305985, 134678021, 202050057, 269422093]> : tile<4xi32>
  %cst_2139062143_i32 = constant <i32: 2139062143> : tile<i32>
  %cst_0_i64 = constant <i64: 0> : tile<2xi64>
  %cst_i64 = constant <i64: [578437695752307201, 1157159078456920585, 1735880461161533969, 2314601843866147353]> : tile<4xi64>
  %cst_9187201950435737471_i64 = constant <i64: 9187201950435737471> : tile<i64>
  %cst_0_f16_1 = constant <f16: 0.000000e+00> : tile<2xf16>
  %cst_f16 = constant <f16: [3.057720e-05, 6.121400e-05, 9.185070e-05, 1.229050e-04]> : tile<4xf16>
  %cst_NaN_f16 = constant <f16: 0x7F7F> : tile<f16>
  %cst_0_bf16 = constant <bf16: 0.000000e+00> : tile<2xbf16>
  %cst_bf16 = constant <bf16: [9.477420e-38, 1.539900e-36, 2.501450e-35, 4.062510e-34]> : tile<4xbf16>
  %cst_bf16_2 = constant <bf16: 3.389530e+38> : tile<bf16>
  %cst_0_f32_3 = constant <f32: 0.000000e+00> : tile<2xf32>
  %cst_f32_4 = constant <f32: [1.53998961E-36, 4.06321607E-34, 1.07111903E-31, 2.82126017E-29]> : tile<4xf32>
  %cst_f32_5 = constant <f32: 3.39615136E+38> : tile<f32>
  %cst_0_tf32 = constant <tf32: 0.000000e+00> : tile<2xtf32>
  %cst_tf32 = constant <tf32: [5.537630e+19, -5.015630e+00, 4.366450e-19, -4.137190e-38]> : tile<4xtf32>
  %cst_tf32_6 = constant <tf32: -1.484750e+29> : tile<tf32>
  %cst_0_f64 = constant <f64: 0.000000e+00> : tile<2xf64>
  %cst_f64_7 = constant <f64: [5.447603722011605E-270, 2.500364306227096E-231, 1.2650169649295773E-192, 5.8021474954586878E-154]> : tile<4xf64>
  %cst_f64_8 = constant <f64: 1.3824172084878715E+306> : tile<f64>
  %cst_0_f8E4M3FN = constant <f8E4M3FN: 0.000000e+00> : tile<2xf8E4M3FN>
  %cst_f8E4M3FN = constant <f8E4M3FN: [1.953130e-03, 3.906250e-03, 5.859380e-03, 7.812500e-03]> : tile<4xf8E4M3FN>
  %cst_NaN_f8E4M3FN = constant <f8E4M3FN: 0x7F> : tile<f8E4M3FN>
  %cst_0_f8E5M2 = constant <f8E5M2: 0.000000e+00> : tile<2xf8E5M2>
  %cst_f8E5M2 = constant <f8E5M2: [1.525880e-05, 3.051760e-05, 4.577640e-05, 6.103520e-05]> : tile<4xf8E5M2>
  %cst_NaN_f8E5M2 = constant <f8E5M2: 0x7F> : tile<f8E5M2>
  %cst_i32_9 = constant <i32: "0x000000000100000002000000030000000400000005000000060000000700000008000000090000000A0000000B0000000C0000000D0000000E0000000F000000100000001100000012000000130000001400000015000000160000001700000018000000190000001A0000001B0000001C0000001D0000001E0000001F000000200000002100000022000000230000002400000025000000260000002700000028000000290000002A0000002B0000002C0000002D0000002E0000002F000000300000003100000032000000330000003400000035000000360000003700000038000000390000003A0000003B0000003C0000003D0000003E0000003F000000400000004100000042000000430000004400000045000000460000004700000048000000490000004A0000004B0000004C0000004D0000004E0000004F000000500000005100000052000000530000005400000055000000560000005700000058000000590000005A0000005B0000005C0000005D0000005E0000005F000000600000006100000062000000630000006400000065000000660000006700000068000000690000006A0000006B0000006C0000006D0000006E0000006F000000700000007100000072000000730000007400000075000000760000007700000078000000790000007A0000007B0000007C0000007D0000007E0000007F000000"> : tile<128xi32>
  %cst_i1_10 = constant <i1: "0x0000000000000000010000000000000000010000000000000101000000000000000001000000000001000100000000000001010000000000010101000000000000000001000000000100000100000000000100010000000001010001000000000000010100000000010001010000000000010101000000000101010100000000"> : tile<128xi1>
  %cst_i1_11 = constant <i1: [false, false, false, false, false, false, false, false, true, false, false, false, false, false, false, false]> : tile<16xi1>
  %cst_i64_12 = constant <i64: [-1, 4611686018427387904]> : tile<2xi64>
  %cst_f32_13 = constant <f32: 1.100000e+00> : tile<f32>
  %cst_NaN_f32 = constant <f32: 0x7FC00000> : tile<f32>
  %cst_f64_14 = constant <f64: 1.000000e-01> : tile<f64>
  %cst_f64_15 = constant <f64: 1.000000e+300> : tile<f64>
  %cst_f32_16 = constant <f32: 3.400000e+38> : tile<f32>
  %cst_f32_17 = constant <f32: 1.000530e-42> : tile<f32>
  %cst_f16_18 = constant <f16: -0.000000e+00> : tile<f16>
  %cst_f16_19 = constant <f16: 9.997550e-02> : tile<f16>
  %0 = addf %cst_0_f32, %cst_f32  : tile<4x8xf32>
  %1 = addf %cst_0_f32, %cst_f32  flush_to_zero : tile<4x8xf32>
  %2 = addf %cst_0_f32, %cst_f32 rounding<zero> : tile<4x8xf32>
  %3 = addf %cst_0_f32, %cst_f32 rounding<zero> flush_to_zero : tile<4x8xf32>
  %4 = addf %cst_0_f32, %cst_f32 rounding<negative_inf> : tile<4x8xf32>
  %5 = addf %cst_0_f32, %cst_f32 rounding<negative_inf> flush_to_zero : tile<4x8xf32>
  %6 = addf %cst_0_f32, %cst_f32 rounding<positive_inf> : tile<4x8xf32>
  %7 = addf %cst_0_f32, %cst_f32 rounding<positive_inf> flush_to_zero : tile<4x8xf32>
  %8 = subf %cst_0_f32, %cst_f32  : tile<4x8xf32>
  %9 = subf %cst_0_f32, %cst_f32  flush_to_zero : tile<4x8xf32>
  %10 = subf %cst_0_f32, %cst_f32 rounding<zero> : tile<4x8xf32>
  %11 = subf %cst_0_f32, %cst_f32 rounding<zero> flush_to_zero : tile<4x8xf32>
  %12 = subf %cst_0_f32, %cst_f32 rounding<negative_inf> : tile<4x8xf32>
  %13 = subf %cst_0_f32, %cst_f32 rounding<negative_inf> flush_to_zero : tile<4x8xf32>
  %14 = subf %cst_0_f32, %cst_f32 rounding<positive_inf> : tile<4x8xf32>
  %15 = subf %cst_0_f32, %cst_f32 rounding<positive_inf> flush_to_zero : tile<4x8xf32>
  %16 = mulf %cst_0_f32, %cst_f32  : tile<4x8xf32>
  %17 = mulf %cst_0_f32, %cst_f32  flush_to_zero : tile<4x8xf32>
  %18 = mulf %cst_0_f32, %cst_f32 rounding<zero> : tile<4x8xf32>
  %19 = mulf %cst_0_f32, %cst_f32 rounding<zero> flush_to_zero : tile<4x8xf32>
  %20 = mulf %cst_0_f32, %cst_f32 rounding<negative_inf> : tile<4x8xf32>
  %21 = mulf %cst_0_f32, %cst_f32 rounding<negative_inf> flush_to_zero : tile<4x8xf32>
  %22 = mulf %cst_0_f32, %cst_f32 rounding<positive_inf> : tile<4x8xf32>
  %23 = mulf %cst_0_f32, %cst_f32 rounding<positive_inf> flush_to_zero : tile<4x8xf32>
  %24 = divf %cst_0_f32, %cst_f32  : tile<4x8xf32>
  %25 = divf %cst_0_f32, %cst_f32  flush_to_zero : tile<4x8xf32>
  %26 = divf %cst_0_f32, %cst_f32 rounding<zero> : tile<4x8xf32>
  %27 = divf %cst_0_f32, %cst_f32 rounding<zero> flush_to_zero : tile<4x8xf32>
  %28 = divf %cst_0_f32, %cst_f32 rounding<negative_inf> : tile<4x8xf32>
  %29 = divf %cst_0_f32, %cst_f32 rounding<negative_inf> flush_to_zero : tile<4x8xf32>
  %30 = divf %cst_0_f32, %cst_f32 rounding<positive_inf> : tile<4x8xf32>
  %31 = divf %cst_0_f32, %cst_f32 rounding<positive_inf> flush_to_zero : tile<4x8xf32>
  %32 = divf %cst_0_f32, %cst_f32 rounding<full> : tile<4x8xf32>
  %33 = divf %cst_0_f32, %cst_f32 rounding<full> flush_to_zero : tile<4x8xf32>
  %34 = divf %cst_0_f32, %cst_f32 rounding<approx> : tile<4x8xf32>
  %35 = divf %cst_0_f32, %cst_f32 rounding<approx> flush_to_zero : tile<4x8xf32>
  %36 = fma %cst_0_f32, %cst_f32, %cst_f32  flush_to_zero : tile<4x8xf32>
  %37 = sqrt %cst_0_f32  : tile<4x8xf32>
  %38 = fma %cst_0_f32, %cst_f32, %cst_f32 rounding<zero> flush_to_zero : tile<4x8xf32>
  %39 = sqrt %cst_0_f32 rounding<zero> : tile<4x8xf32>
  %40 = fma %cst_0_f32, %cst_f32, %cst_f32 rounding<negative_inf> flush_to_zero : tile<4x8xf32>
  %41 = sqrt %cst_0_f32 rounding<negative_inf> : tile<4x8xf32>
  %42 = fma %cst_0_f32, %cst_f32, %cst_f32 rounding<positive_inf> flush_to_zero : tile<4x8xf32>
  %43 = sqrt %cst_0_f32 rounding<positive_inf> : tile<4x8xf32>
  %44 = fma %cst_0_f32, %cst_f32, %cst_f32 rounding<zero> : tile<4x8xf32>
  %45 = sqrt %cst_0_f32 rounding<approx> flush_to_zero : tile<4x8xf32>
  %46 = absf %cst_0_f32 : tile<4x8xf32>
  %47 = negf %cst_0_f32 : tile<4x8xf32>
  %48 = ceil %cst_0_f32 : tile<4x8xf32>
  %49 = cos %cst_0_f32 : tile<4x8xf32>
  %50 = cosh %cst_0_f32 : tile<4x8xf32>
  %51 = floor %cst_0_f32 : tile<4x8xf32>
  %52 = log %cst_0_f32 : tile<4x8xf32>
  %53 = log2 %cst_0_f32 : tile<4x8xf32>
  %54 = sin %cst_0_f32 : tile<4x8xf32>
  %55 = sinh %cst_0_f32 : tile<4x8xf32>
  %56 = tan %cst_0_f32 : tile<4x8xf32>
  %57 = exp2 %cst_0_f32 : tile<4x8xf32>
  %58 = exp2 %cst_0_f32 flush_to_zero : tile<4x8xf32>
  %59 = rsqrt %cst_0_f32 : tile<4x8xf32>
  %60 = rsqrt %cst_0_f32 flush_to_zero : tile<4x8xf32>
  %61 = exp %cst_0_f32  : tile<4x8xf32>
  %62 = tanh %cst_0_f32  : tile<4x8xf32>
  %63 = fpowf %cst_0_f32, %cst_f32 : tile<4x8xf32>
  %64 = remf %cst_0_f32, %cst_f32 : tile<4x8xf32>
  %65 = maxf %cst_0_f32, %cst_f32 : tile<4x8xf32>
  %66 = maxf %cst_0_f32, %cst_f32 flush_to_zero : tile<4x8xf32>
  %67 = maxf %cst_0_f32, %cst_f32 propagate_nan : tile<4x8xf32>
  %68 = maxf %cst_0_f32, %cst_f32 flush_to_zero propagate_nan : tile<4x8xf32>
  %69 = minf %cst_0_f32, %cst_f32 : tile<4x8xf32>
  %70 = minf %cst_0_f32, %cst_f32 flush_to_zero : tile<4x8xf32>
  %71 = minf %cst_0_f32, %cst_f32 propagate_nan : tile<4x8xf32>
  %72 = minf %cst_0_f32, %cst_f32 flush_to_zero propagate_nan : tile<4x8xf32>
  %73 = addi %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %74 = subi %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %75 = muli %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %76 = shli %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %77 = trunci %cst_5_i32 : tile<4x8xi32> -> tile<4x8xi8>
  %78 = addi %cst_5_i32, %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32>
  %79 = subi %cst_5_i32, %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32>
  %80 = muli %cst_5_i32, %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32>
  %81 = shli %cst_5_i32, %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32>
  %82 = trunci %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32> -> tile<4x8xi8>
  %83 = addi %cst_5_i32, %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32>
  %84 = subi %cst_5_i32, %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32>
  %85 = muli %cst_5_i32, %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32>
  %86 = shli %cst_5_i32, %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32>
  %87 = trunci %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32> -> tile<4x8xi8>
  %88 = addi %cst_5_i32, %cst_5_i32 overflow<no_wrap> : tile<4x8xi32>
  %89 = subi %cst_5_i32, %cst_5_i32 overflow<no_wrap> : tile<4x8xi32>
  %90 = muli %cst_5_i32, %cst_5_i32 overflow<no_wrap> : tile<4x8xi32>
  %91 = shli %cst_5_i32, %cst_5_i32 overflow<no_wrap> : tile<4x8xi32>
  %92 = trunci %cst_5_i32 overflow<no_wrap> : tile<4x8xi32> -> tile<4x8xi8>
  %93 = negi %cst_5_i32 : tile<4x8xi32>
  %94 = absi %cst_5_i32 : tile<4x8xi32>
  %95 = andi %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %96 = ori %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %97 = xori %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %98 = mulhii %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %99 = maxi %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %100 = mini %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %101 = remi %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %102 = shri %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %103 = divi %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %104 = divi %cst_5_i32, %cst_5_i32 unsigned rounding<positive_inf> : tile<4x8xi32>
  %105 = exti %cst_5_i32 unsigned : tile<4x8xi32> -> tile<4x8xi64>
  %106 = itof %cst_5_i32 unsigned  : tile<4x8xi32> -> tile<4x8xf32>
  %107 = ftoi %cst_0_f32 unsigned  : tile<4x8xf32> -> tile<4x8xi32>
  %108 = maxi %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %109 = mini %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %110 = remi %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %111 = shri %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %112 = divi %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %113 = divi %cst_5_i32, %cst_5_i32 signed rounding<positive_inf> : tile<4x8xi32>
  %114 = divi %cst_5_i32, %cst_5_i32 signed rounding<negative_inf> : tile<4x8xi32>
  %115 = exti %cst_5_i32 signed : tile<4x8xi32> -> tile<4x8xi64>
  %116 = itof %cst_5_i32 signed  : tile<4x8xi32> -> tile<4x8xf32>
  %117 = ftoi %cst_0_f32 signed  : tile<4x8xf32> -> tile<4x8xi32>
  %118 = cmpi equal %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %119 = cmpi equal %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %120 = cmpf equal unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %121 = cmpf equal ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %122 = cmpi not_equal %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %123 = cmpi not_equal %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %124 = cmpf not_equal unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %125 = cmpf not_equal ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %126 = cmpi less_than %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %127 = cmpi less_than %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %128 = cmpf less_than unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %129 = cmpf less_than ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %130 = cmpi less_than_or_equal %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %131 = cmpi less_than_or_equal %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %132 = cmpf less_than_or_equal unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %133 = cmpf less_than_or_equal ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %134 = cmpi greater_than %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %135 = cmpi greater_than %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %136 = cmpf greater_than unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %137 = cmpf greater_than ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %138 = cmpi greater_than_or_equal %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %139 = cmpi greater_than_or_equal %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %140 = cmpf greater_than_or_equal unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %141 = cmpf greater_than_or_equal ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %142 = select %true, %cst_0_f32, %cst_f32 : tile<4x8xi1>, tile<4x8xf32>
  %143 = bitcast %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi32>
  %144 = ftof %cst_0_f32  : tile<4x8xf32> -> tile<4x8xf16>
  %145 = iota : tile<8xi32>
  %reshape = reshape %cst_0_f32 : tile<4x8xf32> -> tile<32xf32>
  %reshape_20 = reshape %cst_0_f32 : tile<4x8xf32> -> tile<1x32xf32>
  %bcast = broadcast %reshape_20 : tile<1x32xf32> -> tile<4x32xf32>
  %146 = permute %cst_0_f32 [1, 0] : tile<4x8xf32> -> tile<8x4xf32>
  %147 = cat %cst_0_f32, %cst_f32 dim = 0 : tile<4x8xf32>, tile<4x8xf32> -> tile<8x8xf32>
  %148 = extract %cst_0_f32[%cst_-1_i32, %cst_-1_i32] : tile<4x8xf32> -> tile<2x4xf32>
  %149 = ptr_to_int %arg0 : tile<ptr<f32>> -> tile<i64>
  %150 = int_to_ptr %149 : tile<i64> -> tile<ptr<f32>>
  %151 = ptr_to_ptr %arg0 : tile<ptr<f32>> -> tile<ptr<i32>>
  %reshape_21 = reshape %arg0 : tile<ptr<f32>> -> tile<1xptr<f32>>
  %bcast_22 = broadcast %reshape_21 : tile<1xptr<f32>> -> tile<32xptr<f32>>
  %152 = iota : tile<32xi32>
  %153 = offset %bcast_22, %152 : tile<32xptr<f32>>, tile<32xi32> -> tile<32xptr<f32>>
  %assume = assume div_by<16>, %arg0 : tile<ptr<f32>>
  %assume_cst_5_i32 = assume div_by<8, every 2 along 1>, %cst_5_i32 : tile<4x8xi32>
  %assume_cst_5_i32_23 = assume same_elements<[1, 8]>, %cst_5_i32 : tile<4x8xi32>
  %assume_24 = assume bounded<?, ?>, %arg1 : tile<i32>
  %assume_25 = assume bounded<?, 7>, %arg1 : tile<i32>
  %assume_26 = assume bounded<0, ?>, %arg1 : tile<i32>
  %assume_27 = assume bounded<0, 7>, %arg1 : tile<i32>
  %assume_28 = assume bounded<-5, ?>, %arg1 : tile<i32>
  %assume_29 = assume bounded<-5, 7>, %arg1 : tile<i32>
  assert %true, "bad \22value\22\0A" : tile<4x8xi1>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %gridSize_x, %gridSize_y, %gridSize_z = get_num_tile_blocks : tile<i32>
  %154 = print_tko "%f and %i\0A", %cst_0_f32, %cst_5_i32 : tile<4x8xf32>, tile<4x8xi32> -> token
  %155 = make_token : token
  %156 = join_tokens %155, %155 : token
  %true_30 = constant <i1: true> : tile<32xi1>
  %result, %result_token = load_ptr_tko weak %153 : tile<32xptr<f32>> -> tile<32xf32>, token
  %result_31, %result_token_32 = load_ptr_tko relaxed device %153, %true_30 token=%156 : tile<32xptr<f32>>, tile<32xi1> -> tile<32xf32>, token
  %result_33, %result_token_34 = load_ptr_tko acquire sys %153, %true_30, %reshape optimization_hints = <sm_100 = {latency = 3}> : tile<32xptr<f32>>, tile<32xi1>, tile<32xf32> -> tile<32xf32>, token
  %157 = store_ptr_tko weak %153, %reshape : tile<32xptr<f32>>, tile<32xf32> -> token
  %158 = store_ptr_tko release tl_blk %153, %reshape, %true_30 token=%156 optimization_hints = <sm_100 = {latency = 3}> : tile<32xptr<f32>>, tile<32xf32>, tile<32xi1> -> token
  %159 = ptr_to_ptr %153 : tile<32xptr<f32>> -> tile<32xptr<i32>>
  %160 = iota : tile<32xi32>
  %result_35, %result_token_36 = atomic_rmw_tko relaxed device %159, and, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_37, %result_token_38 = atomic_rmw_tko relaxed device %159, or, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_39, %result_token_40 = atomic_rmw_tko relaxed device %159, xor, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_41, %result_token_42 = atomic_rmw_tko relaxed device %159, add, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_43, %result_token_44 = atomic_rmw_tko relaxed device %159, max, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_45, %result_token_46 = atomic_rmw_tko relaxed device %159, min, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_47, %result_token_48 = atomic_rmw_tko relaxed device %159, umax, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_49, %result_token_50 = atomic_rmw_tko relaxed device %159, umin, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_51, %result_token_52 = atomic_rmw_tko relaxed device %159, xchg, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_53, %result_token_54 = atomic_rmw_tko acq_rel sys %153, addf, %reshape, %true_30 token=%156 : tile<32xptr<f32>>, tile<32xf32>, tile<32xi1> -> tile<32xf32>, token
  %result_55, %result_token_56 = atomic_cas_tko acquire device %159, %160, %160 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_57, %result_token_58 = atomic_cas_tko acq_rel tl_blk %159, %160, %160, %true_30 token=%156 : tile<32xptr<i32>>, tile<32xi32>, tile<32xi1> -> tile<32xi32>, token
  %tview = make_tensor_view %arg0, shape = [%arg1, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
  %tview_59 = make_tensor_view %arg0, shape = [%arg1, %arg1], strides = [%arg1, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %tview_60 = make_tensor_view %arg0, shape = [], strides = [] : tensor_view<f32>
  %tview_61 = make_tensor_view %arg0, shape = [4, 8], strides = [8, 1] : tensor_view<4x8xf32, strides=[8,1]>
  %161:2 = get_tensor_shape %tview : tensor_view<?x64xf32, strides=[64,1]> -> tile<i32>
  %pview = make_partition_view %tview : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>
  %pview_62 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = zero, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_63 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = neg_zero, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_64 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = nan, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_65 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = pos_inf, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_66 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_67 = make_partition_view %tview : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>, dim_map=[1, 0]>
  %162:2 = get_index_space_shape %pview_67 : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>, dim_map=[1, 0]> -> tile<i32>
  %tile, %result_token_68 = load_view_tko weak %pview_66[%cst_-1_i32, %cst_-1_i32] : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<4x8xf32>, token
  %tile_69, %result_token_70 = load_view_tko acquire device %pview_66[%arg1, %cst_-1_i32] token = %156 optimization_hints = <sm_100 = {}, sm_90 = {allow_tma = false, latency = 3}> : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<4x8xf32>, token
  %163 = store_view_tko weak %cst_0_f32, %pview_66[%cst_-1_i32, %cst_-1_i32] : tile<4x8xf32>, partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> token
  %164 = store_view_tko relaxed sys %cst_0_f32, %pview_66[%cst_-1_i32, %cst_-1_i32] token = %156 optimization_hints = <sm_100 = {}, sm_90 = {allow_tma = false, latency = 3}> : tile<4x8xf32>, partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> token
  %cst_0_f16_71 = constant <f16: 0.000000e+00> : tile<16x32xf16>
  %cst_0_f16_72 = constant <f16: 0.000000e+00> : tile<32x16xf16>
  %cst_0_f32_73 = constant <f32: 0.000000e+00> : tile<16x16xf32>
  %165 = mmaf %cst_0_f16_71, %cst_0_f16_72, %cst_0_f32_73 : tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf32>
  %cst_0_i8_74 = constant <i8: 0> : tile<16x32xi8>
  %cst_0_i8_75 = constant <i8: 0> : tile<32x16xi8>
  %cst_0_i32_76 = constant <i32: 0> : tile<16x16xi32>
  %166 = mmai %cst_0_i8_74, %cst_0_i8_75, %cst_0_i32_76 signed signed : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
  %167 = mmai %cst_0_i8_74, %cst_0_i8_75, %cst_0_i32_76 signed unsigned : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
  %168 = mmai %cst_0_i8_74, %cst_0_i8_75, %cst_0_i32_76 unsigned signed : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
  %169 = mmai %cst_0_i8_74, %cst_0_i8_75, %cst_0_i32_76 unsigned unsigned : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
  %170 = get_global @table : tile<ptr<f32>>
  %for = for %loopIdx in (%cst_-1_i32 to %arg1, step %arg1) : tile<i32> iter_values(%iterArg0 = %cst_0_f32) -> (tile<4x8xf32>) {
    continue %iterArg0 : tile<4x8xf32>
  }
  for %loopIdx in (%cst_-1_i32 to %arg1, step %arg1) : tile<i32> {
  }
  %171:2 = loop iter_values(%arg6 = %cst_0_f32) : tile<4x8xf32> -> tile<i32>, tile<i32> {
    %true_82 = constant <i1: true> : tile<i1>
    if %true_82 {
      break %cst_-1_i32, %cst_-1_i32 : tile<i32>, tile<i32>
    } else {
    }
    if %true_82 {
      continue %arg6 : tile<4x8xf32>
    }
    continue %arg6 : tile<4x8xf32>
  }
  loop {
    break
  }
  loop {
    %true_82 = constant <i1: true> : tile<i1>
    if %true_82 {
      break
    }
  }
  %true_77 = constant <i1: true> : tile<i1>
  %172 = if %true_77 -> (tile<i32>) {
    yield %cst_-1_i32 : tile<i32>
  } else {
    yield %arg1 : tile<i32>
  }
  %true_78 = constant <i1: true> : tile<i1>
  if %true_78 {
    assert %true, "inner" : tile<4x8xi1>
  }
  %true_79 = constant <i1: true> : tile<i1>
  if %true_79 {
    return
  }
  %reduce = reduce %cst_0_f32 dim=0 identities=[0.000000e+00 : f32] : tile<4x8xf32> -> tile<8xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %175 = addf %reduce_lhs, %reduce_rhs  : tile<f32>
    yield %175 : tile<f32>
  }
  %173 = scan %cst_0_f32 dim=0 reverse=false identities=[0xFF800000 : f32] : tile<4x8xf32> -> tile<4x8xf32> 
  (%arg6: tile<f32>, %arg7: tile<f32>) {
    %175 = addf %arg6, %arg7  : tile<f32>
    yield %175 : tile<f32>
  }
  %reduce_80 = reduce %cst_5_i32 dim=0 identities=[-1 : i32] : tile<4x8xi32> -> tile<8xi32> 
  (%reduce_lhs: tile<i32>, %reduce_rhs: tile<i32>) {
    %175 = addi %reduce_lhs, %reduce_rhs : tile<i32>
    yield %175 : tile<i32>
  }
  %174 = scan %cst_f64 dim=0 reverse=true identities=[0xFFF0000000000000 : f64] : tile<4x8xf64> -> tile<4x8xf64> 
  (%arg6: tile<f64>, %arg7: tile<f64>) {
    %175 = addf %arg6, %arg7  : tile<f64>
    yield %175 : tile<f64>
  }
  %reduce_81:2 = reduce %cst_0_f32, %cst_5_i32 dim=1 identities=[1.000000e+00 : f32, 5 : i32] : tile<4x8xf32>, tile<4x8xi32> -> tile<4xf32>, tile<4xi32> 
  (%reduce_lhs0: tile<f32>, %reduce_rhs0: tile<f32>, %reduce_lhs1: tile<i32>, %reduce_rhs1: tile<i32>) {
    yield %reduce_lhs0, %reduce_lhs1 : tile<f32>, tile<i32>
  }
  return
}
entry @plain() {
  return
}

// Producer: maker 1.0
global  @table alignment = 16 <f32: [1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tile<4xf32>
global  @zeros <i8: 0> : tile<64xi8>
global private  constant @hidden <i32: [1, 2]> : tile<2xi32>
entry @every(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<f64>, %arg3: tile<ptr<i32>>, %arg4: tile<i64>, %arg5: tile<ptr<f16>>) optimization_hints=<default = {}, sm_100 = {num_cta_in_cga = 2, occupancy = 4}> {
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
  %cst_f8E8M0FNU = constant <f8E8M0FNU: 5.877470e-39> : tile<2xf8E8M0FNU>
  %cst_f8E8M0FNU_9 = constant <f8E8M0FNU: [1.175490e-38, 2.350990e-38, 4.701980e-38, 9.403950e-38]> : tile<4xf8E8M0FNU>
  %cst_1_f8E8M0FNU = constant <f8E8M0FNU: 1.000000e+00> : tile<f8E8M0FNU>
  %cst_0_f4E2M1FN = constant <f4E2M1FN: 0.000000e+00> : tile<2xf4E2M1FN>
  %cst_f4E2M1FN = constant <f4E2M1FN: [5.000000e-01, 1.000000e+00, 1.500000e+00, 2.000000e+00]> : tile<4xf4E2M1FN>
  %cst_0_fnv8E5M3FNU = constant <fnv8E5M3FNU: 0.000000e+00> : tile<2xfnv8E5M3FNU>
  %cst_fnv8E5M3FNU = constant <fnv8E5M3FNU: [7.629390e-06, 1.525880e-05, 2.288820e-05, 3.051760e-05]> : tile<4xfnv8E5M3FNU>
  %cst_fnv8E5M3FNU_10 = constant <fnv8E5M3FNU: 1.875000e+00> : tile<fnv8E5M3FNU>
  %cst_i32_11 = constant <i32: "0x000000000100000002000000030000000400000005000000060000000700000008000000090000000A0000000B0000000C0000000D0000000E0000000F000000100000001100000012000000130000001400000015000000160000001700000018000000190000001A0000001B0000001C0000001D0000001E0000001F000000200000002100000022000000230000002400000025000000260000002700000028000000290000002A0000002B0000002C0000002D0000002E0000002F000000300000003100000032000000330000003400000035000000360000003700000038000000390000003A0000003B0000003C0000003D0000003E0000003F000000400000004100000042000000430000004400000045000000460000004700000048000000490000004A0000004B0000004C0000004D0000004E0000004F000000500000005100000052000000530000005400000055000000560000005700000058000000590000005A0000005B0000005C0000005D0000005E0000005F000000600000006100000062000000630000006400000065000000660000006700000068000000690000006A0000006B0000006C0000006D0000006E0000006F000000700000007100000072000000730000007400000075000000760000007700000078000000790000007A0000007B0000007C0000007D0000007E0000007F000000"> : tile<128xi32>
  %cst_i1_12 = constant <i1: "0x0000000000000000010000000000000000010000000000000101000000000000000001000000000001000100000000000001010000000000010101000000000000000001000000000100000100000000000100010000000001010001000000000000010100000000010001010000000000010101000000000101010100000000"> : tile<128xi1>
  %cst_i1_13 = constant <i1: [false, false, false, false, false, false, false, false, true, false, false, false, false, false, false, false]> : tile<16xi1>
  %cst_i64_14 = constant <i64: [-1, 4611686018427387904]> : tile<2xi64>
  %cst_f32_15 = constant <f32: 1.100000e+00> : tile<f32>
  %cst_NaN_f32 = constant <f32: 0x7FC00000> : tile<f32>
  %cst_f64_16 = constant <f64: 1.000000e-01> : tile<f64>
  %cst_f64_17 = constant <f64: 1.000000e+300> : tile<f64>
  %cst_f32_18 = constant <f32: 3.400000e+38> : tile<f32>
  %cst_f32_19 = constant <f32: 1.000530e-42> : tile<f32>
  %cst_f16_20 = constant <f16: -0.000000e+00> : tile<f16>
  %cst_f16_21 = constant <f16: 9.997550e-02> : tile<f16>
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
  %63 = tanh %cst_0_f32 rounding<approx> : tile<4x8xf32>
  %64 = atan2 %cst_0_f32, %cst_f32 : tile<4x8xf32>
  %65 = exp %cst_0_f32 rounding<approx> : tile<4x8xf32>
  %66 = fpowf %cst_0_f32, %cst_f32 : tile<4x8xf32>
  %67 = remf %cst_0_f32, %cst_f32 : tile<4x8xf32>
  %68 = maxf %cst_0_f32, %cst_f32 : tile<4x8xf32>
  %69 = maxf %cst_0_f32, %cst_f32 flush_to_zero : tile<4x8xf32>
  %70 = maxf %cst_0_f32, %cst_f32 propagate_nan : tile<4x8xf32>
  %71 = maxf %cst_0_f32, %cst_f32 flush_to_zero propagate_nan : tile<4x8xf32>
  %72 = minf %cst_0_f32, %cst_f32 : tile<4x8xf32>
  %73 = minf %cst_0_f32, %cst_f32 flush_to_zero : tile<4x8xf32>
  %74 = minf %cst_0_f32, %cst_f32 propagate_nan : tile<4x8xf32>
  %75 = minf %cst_0_f32, %cst_f32 flush_to_zero propagate_nan : tile<4x8xf32>
  %76 = addi %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %77 = subi %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %78 = muli %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %79 = shli %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %80 = trunci %cst_5_i32 : tile<4x8xi32> -> tile<4x8xi8>
  %81 = addi %cst_5_i32, %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32>
  %82 = subi %cst_5_i32, %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32>
  %83 = muli %cst_5_i32, %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32>
  %84 = shli %cst_5_i32, %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32>
  %85 = trunci %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32> -> tile<4x8xi8>
  %86 = addi %cst_5_i32, %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32>
  %87 = subi %cst_5_i32, %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32>
  %88 = muli %cst_5_i32, %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32>
  %89 = shli %cst_5_i32, %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32>
  %90 = trunci %cst_5_i32 overflow<no_unsigned_wrap> : tile<4x8xi32> -> tile<4x8xi8>
  %91 = addi %cst_5_i32, %cst_5_i32 overflow<no_wrap> : tile<4x8xi32>
  %92 = subi %cst_5_i32, %cst_5_i32 overflow<no_wrap> : tile<4x8xi32>
  %93 = muli %cst_5_i32, %cst_5_i32 overflow<no_wrap> : tile<4x8xi32>
  %94 = shli %cst_5_i32, %cst_5_i32 overflow<no_wrap> : tile<4x8xi32>
  %95 = trunci %cst_5_i32 overflow<no_wrap> : tile<4x8xi32> -> tile<4x8xi8>
  %96 = negi %cst_5_i32 : tile<4x8xi32>
  %97 = negi %cst_5_i32 overflow<no_signed_wrap> : tile<4x8xi32>
  %98 = absi %cst_5_i32 : tile<4x8xi32>
  %99 = andi %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %100 = ori %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %101 = xori %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %102 = mulhii %cst_5_i32, %cst_5_i32 : tile<4x8xi32>
  %103 = maxi %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %104 = mini %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %105 = remi %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %106 = shri %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %107 = divi %cst_5_i32, %cst_5_i32 unsigned : tile<4x8xi32>
  %108 = divi %cst_5_i32, %cst_5_i32 unsigned rounding<positive_inf> : tile<4x8xi32>
  %109 = exti %cst_5_i32 unsigned : tile<4x8xi32> -> tile<4x8xi64>
  %110 = itof %cst_5_i32 unsigned  : tile<4x8xi32> -> tile<4x8xf32>
  %111 = ftoi %cst_0_f32 unsigned  : tile<4x8xf32> -> tile<4x8xi32>
  %112 = ftoi %cst_0_f32 unsigned  saturating : tile<4x8xf32> -> tile<4x8xi32>
  %113 = maxi %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %114 = mini %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %115 = remi %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %116 = shri %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %117 = divi %cst_5_i32, %cst_5_i32 signed : tile<4x8xi32>
  %118 = divi %cst_5_i32, %cst_5_i32 signed rounding<positive_inf> : tile<4x8xi32>
  %119 = divi %cst_5_i32, %cst_5_i32 signed rounding<negative_inf> : tile<4x8xi32>
  %120 = exti %cst_5_i32 signed : tile<4x8xi32> -> tile<4x8xi64>
  %121 = itof %cst_5_i32 signed  : tile<4x8xi32> -> tile<4x8xf32>
  %122 = ftoi %cst_0_f32 signed  : tile<4x8xf32> -> tile<4x8xi32>
  %123 = ftoi %cst_0_f32 signed  saturating : tile<4x8xf32> -> tile<4x8xi32>
  %124 = cmpi equal %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %125 = cmpi equal %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %126 = cmpf equal unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %127 = cmpf equal ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %128 = cmpi not_equal %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %129 = cmpi not_equal %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %130 = cmpf not_equal unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %131 = cmpf not_equal ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %132 = cmpi less_than %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %133 = cmpi less_than %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %134 = cmpf less_than unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %135 = cmpf less_than ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %136 = cmpi less_than_or_equal %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %137 = cmpi less_than_or_equal %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %138 = cmpf less_than_or_equal unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %139 = cmpf less_than_or_equal ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %140 = cmpi greater_than %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %141 = cmpi greater_than %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %142 = cmpf greater_than unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %143 = cmpf greater_than ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %144 = cmpi greater_than_or_equal %cst_5_i32, %cst_5_i32, unsigned : tile<4x8xi32> -> tile<4x8xi1>
  %145 = cmpi greater_than_or_equal %cst_5_i32, %cst_5_i32, signed : tile<4x8xi32> -> tile<4x8xi1>
  %146 = cmpf greater_than_or_equal unordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %147 = cmpf greater_than_or_equal ordered %cst_0_f32, %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi1>
  %148 = select %true, %cst_0_f32, %cst_f32 : tile<4x8xi1>, tile<4x8xf32>
  %149 = bitcast %cst_0_f32 : tile<4x8xf32> -> tile<4x8xi32>
  %150 = ftof %cst_0_f32  : tile<4x8xf32> -> tile<4x8xf16>
  %151 = ftof %cst_0_f32 rounding<zero> : tile<4x8xf32> -> tile<4x8xf16>
  %152 = ftof %cst_0_f32 rounding<nearest_away> : tile<4x8xf32> -> tile<4x8xtf32>
  %153 = iota : tile<8xi32>
  %reshape = reshape %cst_0_f32 : tile<4x8xf32> -> tile<32xf32>
  %reshape_22 = reshape %cst_0_f32 : tile<4x8xf32> -> tile<1x32xf32>
  %bcast = broadcast %reshape_22 : tile<1x32xf32> -> tile<4x32xf32>
  %154 = permute %cst_0_f32 [1, 0] : tile<4x8xf32> -> tile<8x4xf32>
  %155 = cat %cst_0_f32, %cst_f32 dim = 0 : tile<4x8xf32>, tile<4x8xf32> -> tile<8x8xf32>
  %156 = extract %cst_0_f32[%cst_-1_i32, %cst_-1_i32] : tile<4x8xf32> -> tile<2x4xf32>
  %157 = ptr_to_int %arg0 : tile<ptr<f32>> -> tile<i64>
  %158 = int_to_ptr %157 : tile<i64> -> tile<ptr<f32>>
  %159 = ptr_to_ptr %arg0 : tile<ptr<f32>> -> tile<ptr<i32>>
  %reshape_23 = reshape %arg0 : tile<ptr<f32>> -> tile<1xptr<f32>>
  %bcast_24 = broadcast %reshape_23 : tile<1xptr<f32>> -> tile<32xptr<f32>>
  %160 = iota : tile<32xi32>
  %161 = offset %bcast_24, %160 : tile<32xptr<f32>>, tile<32xi32> -> tile<32xptr<f32>>
  %assume = assume div_by<16>, %arg0 : tile<ptr<f32>>
  %assume_cst_5_i32 = assume div_by<8, every 2 along 1>, %cst_5_i32 : tile<4x8xi32>
  %assume_cst_5_i32_25 = assume same_elements<[1, 8]>, %cst_5_i32 : tile<4x8xi32>
  %assume_26 = assume bounded<?, ?>, %arg1 : tile<i32>
  %assume_27 = assume bounded<?, 7>, %arg1 : tile<i32>
  %assume_28 = assume bounded<0, ?>, %arg1 : tile<i32>
  %assume_29 = assume bounded<0, 7>, %arg1 : tile<i32>
  %assume_30 = assume bounded<-5, ?>, %arg1 : tile<i32>
  %assume_31 = assume bounded<-5, 7>, %arg1 : tile<i32>
  assert %true, "bad \22value\22\0A" : tile<4x8xi1>
  %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %gridSize_x, %gridSize_y, %gridSize_z = get_num_tile_blocks : tile<i32>
  %162 = print_tko "%f and %i\0A", %cst_0_f32, %cst_5_i32 : tile<4x8xf32>, tile<4x8xi32> -> token
  %163 = print_tko "none" token=%162 -> token
  %164 = make_token : token
  %165 = join_tokens %164, %164 : token
  %true_32 = constant <i1: true> : tile<32xi1>
  %result, %result_token = load_ptr_tko weak %161 : tile<32xptr<f32>> -> tile<32xf32>, token
  %result_33, %result_token_34 = load_ptr_tko relaxed device %161, %true_32 token=%165 : tile<32xptr<f32>>, tile<32xi1> -> tile<32xf32>, token
  %result_35, %result_token_36 = load_ptr_tko acquire sys %161, %true_32, %reshape optimization_hints = <sm_100 = {latency = 3}> : tile<32xptr<f32>>, tile<32xi1>, tile<32xf32> -> tile<32xf32>, token
  %166 = store_ptr_tko weak %161, %reshape : tile<32xptr<f32>>, tile<32xf32> -> token
  %167 = store_ptr_tko release tl_blk %161, %reshape, %true_32 token=%165 optimization_hints = <sm_100 = {latency = 3}> : tile<32xptr<f32>>, tile<32xf32>, tile<32xi1> -> token
  %168 = ptr_to_ptr %161 : tile<32xptr<f32>> -> tile<32xptr<i32>>
  %169 = iota : tile<32xi32>
  %result_37, %result_token_38 = atomic_rmw_tko relaxed device %168, and, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_39, %result_token_40 = atomic_rmw_tko relaxed device %168, or, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_41, %result_token_42 = atomic_rmw_tko relaxed device %168, xor, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_43, %result_token_44 = atomic_rmw_tko relaxed device %168, add, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_45, %result_token_46 = atomic_rmw_tko relaxed device %168, max, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_47, %result_token_48 = atomic_rmw_tko relaxed device %168, min, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_49, %result_token_50 = atomic_rmw_tko relaxed device %168, umax, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_51, %result_token_52 = atomic_rmw_tko relaxed device %168, umin, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_53, %result_token_54 = atomic_rmw_tko relaxed device %168, xchg, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_55, %result_token_56 = atomic_rmw_tko acq_rel sys %161, addf, %reshape, %true_32 token=%165 : tile<32xptr<f32>>, tile<32xf32>, tile<32xi1> -> tile<32xf32>, token
  %result_57, %result_token_58 = atomic_cas_tko acquire device %168, %169, %169 : tile<32xptr<i32>>, tile<32xi32> -> tile<32xi32>, token
  %result_59, %result_token_60 = atomic_cas_tko acq_rel tl_blk %168, %169, %169, %true_32 token=%165 : tile<32xptr<i32>>, tile<32xi32>, tile<32xi1> -> tile<32xi32>, token
  %tview = make_tensor_view %arg0, shape = [%arg1, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
  %tview_61 = make_tensor_view %arg0, shape = [%arg1, %arg1], strides = [%arg1, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %tview_62 = make_tensor_view %arg0, shape = [], strides = [] : tensor_view<f32>
  %tview_63 = make_tensor_view %arg0, shape = [4, 8], strides = [8, 1] : tensor_view<4x8xf32, strides=[8,1]>
  %170:2 = get_tensor_shape %tview : tensor_view<?x64xf32, strides=[64,1]> -> tile<i32>
  %pview = make_partition_view %tview : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>
  %pview_64 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = zero, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_65 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = neg_zero, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_66 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = nan, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_67 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = pos_inf, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_68 = make_partition_view %tview : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>
  %pview_69 = make_partition_view %tview : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>, dim_map=[1, 0]>
  %171:2 = get_index_space_shape %pview_69 : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>, dim_map=[1, 0]> -> tile<i32>
  %tile, %result_token_70 = load_view_tko weak %pview_68[%cst_-1_i32, %cst_-1_i32] : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<4x8xf32>, token
  %tile_71, %result_token_72 = load_view_tko acquire device %pview_68[%arg1, %cst_-1_i32] token = %165 optimization_hints = <sm_100 = {}, sm_90 = {allow_tma = false, latency = 3}> : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<4x8xf32>, token
  %172 = store_view_tko weak %cst_0_f32, %pview_68[%cst_-1_i32, %cst_-1_i32] : tile<4x8xf32>, partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> token
  %173 = store_view_tko relaxed sys %cst_0_f32, %pview_68[%cst_-1_i32, %cst_-1_i32] token = %165 optimization_hints = <sm_100 = {}, sm_90 = {allow_tma = false, latency = 3}> : tile<4x8xf32>, partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> token
  %tile_73, %result_token_74 = load_view_tko weak %pview_68[%cst_-1_i32, %cst_-1_i32] inbounds = [true, false] : partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<4x8xf32>, token
  %174 = store_view_tko weak %cst_0_f32, %pview_68[%cst_-1_i32, %cst_-1_i32] token = %165 inbounds = [false, true] : tile<4x8xf32>, partition_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> token
  %cst_0_f16_75 = constant <f16: 0.000000e+00> : tile<16x32xf16>
  %cst_0_f16_76 = constant <f16: 0.000000e+00> : tile<32x16xf16>
  %cst_0_f32_77 = constant <f32: 0.000000e+00> : tile<16x16xf32>
  %175 = mmaf %cst_0_f16_75, %cst_0_f16_76, %cst_0_f32_77 : tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf32>
  %cst_0_i8_78 = constant <i8: 0> : tile<16x32xi8>
  %cst_0_i8_79 = constant <i8: 0> : tile<32x16xi8>
  %cst_0_i32_80 = constant <i32: 0> : tile<16x16xi32>
  %176 = mmai %cst_0_i8_78, %cst_0_i8_79, %cst_0_i32_80 signed signed : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
  %177 = mmai %cst_0_i8_78, %cst_0_i8_79, %cst_0_i32_80 signed unsigned : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
  %178 = mmai %cst_0_i8_78, %cst_0_i8_79, %cst_0_i32_80 unsigned signed : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
  %179 = mmai %cst_0_i8_78, %cst_0_i8_79, %cst_0_i32_80 unsigned unsigned : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
  %cst_0_f8E4M3FN_81 = constant <f8E4M3FN: 0.000000e+00> : tile<16x32xf8E4M3FN>
  %cst_0_f8E4M3FN_82 = constant <f8E4M3FN: 0.000000e+00> : tile<32x16xf8E4M3FN>
  %180 = mmaf %cst_0_f8E4M3FN_81, %cst_0_f8E4M3FN_82, %cst_0_f32_77 fast_acc : tile<16x32xf8E4M3FN>, tile<32x16xf8E4M3FN>, tile<16x16xf32>
  %cst_f8E8M0FNU_83 = constant <f8E8M0FNU: 5.877470e-39> : tile<16x1xf8E8M0FNU>
  %cst_f8E8M0FNU_84 = constant <f8E8M0FNU: 5.877470e-39> : tile<1x16xf8E8M0FNU>
  %181 = mmaf_scaled %cst_0_f8E4M3FN_81, %cst_0_f8E4M3FN_82, %cst_0_f32_77, %cst_f8E8M0FNU_83, %cst_f8E8M0FNU_84 : tile<16x32xf8E4M3FN>, tile<32x16xf8E4M3FN>, tile<16x16xf32>, tile<16x1xf8E8M0FNU>, tile<1x16xf8E8M0FNU>
  %182 = pack %reshape : tile<32xf32> -> tile<128xi8>
  %183 = unpack %182 : tile<128xi8> -> tile<32xf32>
  %184 = alloca num_elem = 64, alignment = 16 : tile<ptr<f32>>
  %185 = alloca num_elem = 64, alignment = 4 global : tile<ptr<f32>>
  %gsview = make_gather_scatter_view %tview : gather_scatter_view<tile=(8x8), padding_value = zero, tensor_view<?x64xf32, strides=[64,1]>, sparse_dim=0>
  %gsview_85 = make_gather_scatter_view %tview : gather_scatter_view<tile=(8x8), tensor_view<?x64xf32, strides=[64,1]>, sparse_dim=1>
  %186 = iota : tile<8xi32>
  %tile_86, %result_token_87 = load_view_tko weak %gsview[%186, %cst_-1_i32] : gather_scatter_view<tile=(8x8), padding_value = zero, tensor_view<?x64xf32, strides=[64,1]>, sparse_dim=0>, tile<8xi32>, tile<i32> -> tile<8x8xf32>, token
  %187 = store_view_tko weak %tile_86, %gsview[%186, %cst_-1_i32] : tile<8x8xf32>, gather_scatter_view<tile=(8x8), padding_value = zero, tensor_view<?x64xf32, strides=[64,1]>, sparse_dim=0>, tile<8xi32>, tile<i32> -> token
  %sview = make_strided_view %tview : strided_view<tile=(4x8), traversal_strides=[2,8], padding_value = nan, tensor_view<?x64xf32, strides=[64,1]>>
  %sview_88 = make_strided_view %tview : strided_view<tile=(4x8), traversal_strides=[2,8], tensor_view<?x64xf32, strides=[64,1]>, dim_map=[1, 0]>
  %188:2 = get_index_space_shape %sview : strided_view<tile=(4x8), traversal_strides=[2,8], padding_value = nan, tensor_view<?x64xf32, strides=[64,1]>> -> tile<i32>
  %tile_89, %result_token_90 = load_view_tko weak %sview[%cst_-1_i32, %cst_-1_i32] : strided_view<tile=(4x8), traversal_strides=[2,8], padding_value = nan, tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<4x8xf32>, token
  %189 = atomic_red_view_tko relaxed device %pview_69[%cst_-1_i32, %cst_-1_i32], addf, %cst_0_f32 : tile<4x8xf32>, partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>, dim_map=[1, 0]>, tile<i32> -> token
  %190 = atomic_red_view_tko relaxed tl_blk %pview_69[%cst_-1_i32, %cst_-1_i32], addf, %cst_0_f32 token = %165 : tile<4x8xf32>, partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>, dim_map=[1, 0]>, tile<i32> -> token
  %cst_0_f32_91 = constant <f32: 0.000000e+00> : tile<2x4xf32>
  %191 = insert %cst_0_f32_91, %cst_0_f32[%cst_-1_i32, %cst_-1_i32] : tile<2x4xf32>, tile<4x8xf32>
  %192 = gdc_launch_dependents_tko -> token
  %193 = gdc_launch_dependents_tko token = %165 -> token
  %194 = gdc_wait_tko -> token
  %195 = gdc_wait_tko token = %165 -> token
  %196 = fpowi %cst_0_f32, %cst_5_i32 : tile<4x8xf32>, tile<4x8xi32>
  %197 = memory_fence_alias_tko %165
  %198 = atomic_red_view_tko relaxed device %pview_69[%cst_-1_i32, %cst_-1_i32], addf, %cst_0_f32 inbounds = [true, true] : tile<4x8xf32>, partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>, dim_map=[1, 0]>, tile<i32> -> token
  %199 = get_global @table : tile<ptr<f32>>
  %for = for %loopIdx in (%cst_-1_i32 to %arg1, step %arg1) : tile<i32> iter_values(%iterArg0 = %cst_0_f32) -> (tile<4x8xf32>) {
    continue %iterArg0 : tile<4x8xf32>
  }
  for %loopIdx in (%cst_-1_i32 to %arg1, step %arg1) : tile<i32> {
  }
  for unsigned %loopIdx in (%cst_-1_i32 to %arg1, step %arg1) : tile<i32> {
  }
  %200:2 = loop iter_values(%arg6 = %cst_0_f32) : tile<4x8xf32> -> tile<i32>, tile<i32> {
    %true_97 = constant <i1: true> : tile<i1>
    if %true_97 {
      break %cst_-1_i32, %cst_-1_i32 : tile<i32>, tile<i32>
    } else {
    }
    if %true_97 {
      continue %arg6 : tile<4x8xf32>
    }
    continue %arg6 : tile<4x8xf32>
  }
  loop {
    break
  }
  loop {
    %true_97 = constant <i1: true> : tile<i1>
    if %true_97 {
      break
    }
  }
  %true_92 = constant <i1: true> : tile<i1>
  %201 = if %true_92 -> (tile<i32>) {
    yield %cst_-1_i32 : tile<i32>
  } else {
    yield %arg1 : tile<i32>
  }
  %true_93 = constant <i1: true> : tile<i1>
  if %true_93 {
    assert %true, "inner" : tile<4x8xi1>
  }
  %true_94 = constant <i1: true> : tile<i1>
  if %true_94 {
    return
  }
  %reduce = reduce %cst_0_f32 dim=0 identities=[0.000000e+00 : f32] : tile<4x8xf32> -> tile<8xf32> 
  (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
    %204 = addf %reduce_lhs, %reduce_rhs  : tile<f32>
    yield %204 : tile<f32>
  }
  %202 = scan %cst_0_f32 dim=0 reverse=false identities=[0xFF800000 : f32] : tile<4x8xf32> -> tile<4x8xf32> 
  (%arg6: tile<f32>, %arg7: tile<f32>) {
    %204 = addf %arg6, %arg7  : tile<f32>
    yield %204 : tile<f32>
  }
  %reduce_95 = reduce %cst_5_i32 dim=0 identities=[-1 : i32] : tile<4x8xi32> -> tile<8xi32> 
  (%reduce_lhs: tile<i32>, %reduce_rhs: tile<i32>) {
    %204 = addi %reduce_lhs, %reduce_rhs : tile<i32>
    yield %204 : tile<i32>
  }
  %203 = scan %cst_f64 dim=0 reverse=true identities=[0xFFF0000000000000 : f64] : tile<4x8xf64> -> tile<4x8xf64> 
  (%arg6: tile<f64>, %arg7: tile<f64>) {
    %204 = addf %arg6, %arg7  : tile<f64>
    yield %204 : tile<f64>
  }
  %reduce_96:2 = reduce %cst_0_f32, %cst_5_i32 dim=1 identities=[1.000000e+00 : f32, 5 : i32] : tile<4x8xf32>, tile<4x8xi32> -> tile<4xf32>, tile<4xi32> 
  (%reduce_lhs0: tile<f32>, %reduce_rhs0: tile<f32>, %reduce_lhs1: tile<i32>, %reduce_rhs1: tile<i32>) {
    yield %reduce_lhs0, %reduce_lhs1 : tile<f32>, tile<i32>
  }
  return
}
entry @plain() {
  return
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Of TraceLoggingProvider.h, not for programs: applies a macro to each of up to 128 arguments.
 */
#ifndef ETW_TRACELOGGING_EACH_H
#define ETW_TRACELOGGING_EACH_H

/* clang-format off */

/* How many arguments: 1 to 128. */
#define ETW_TLG_COUNT(...) ETW_TLG_COUNT_(__VA_ARGS__, \
    128, 127, 126, 125, 124, 123, 122, 121, 120, 119, 118, 117, 116, 115, 114, 113, \
    112, 111, 110, 109, 108, 107, 106, 105, 104, 103, 102, 101, 100, 99, 98, 97, \
    96, 95, 94, 93, 92, 91, 90, 89, 88, 87, 86, 85, 84, 83, 82, 81, \
    80, 79, 78, 77, 76, 75, 74, 73, 72, 71, 70, 69, 68, 67, 66, 65, \
    64, 63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, \
    48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, \
    32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, \
    16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, \
    0)
#define ETW_TLG_COUNT_( \
    a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, \
    a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, \
    a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, \
    a49, a50, a51, a52, a53, a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, a64, \
    a65, a66, a67, a68, a69, a70, a71, a72, a73, a74, a75, a76, a77, a78, a79, a80, \
    a81, a82, a83, a84, a85, a86, a87, a88, a89, a90, a91, a92, a93, a94, a95, a96, \
    a97, a98, a99, a100, a101, a102, a103, a104, a105, a106, a107, a108, a109, a110, a111, a112, \
    a113, a114, a115, a116, a117, a118, a119, a120, a121, a122, a123, a124, a125, a126, a127, \
    a128, \
    n, ...) n

/* op(n, argument) for each argument in order; n is another number for each. */
#define ETW_TLG_EACH(op, ...) ETW_TLG_EACH_(ETW_TLG_COUNT(__VA_ARGS__), op, __VA_ARGS__)
#define ETW_TLG_EACH_(n, op, ...) ETW_TLG_EACH__(n, op, __VA_ARGS__)
#define ETW_TLG_EACH__(n, op, ...) ETW_TLG_EACH_##n(op, __VA_ARGS__)
#define ETW_TLG_EACH_1(op, x) op(1, x)
#define ETW_TLG_EACH_2(op, x, ...) op(2, x) ETW_TLG_EACH_1(op, __VA_ARGS__)
#define ETW_TLG_EACH_3(op, x, ...) op(3, x) ETW_TLG_EACH_2(op, __VA_ARGS__)
#define ETW_TLG_EACH_4(op, x, ...) op(4, x) ETW_TLG_EACH_3(op, __VA_ARGS__)
#define ETW_TLG_EACH_5(op, x, ...) op(5, x) ETW_TLG_EACH_4(op, __VA_ARGS__)
#define ETW_TLG_EACH_6(op, x, ...) op(6, x) ETW_TLG_EACH_5(op, __VA_ARGS__)
#define ETW_TLG_EACH_7(op, x, ...) op(7, x) ETW_TLG_EACH_6(op, __VA_ARGS__)
#define ETW_TLG_EACH_8(op, x, ...) op(8, x) ETW_TLG_EACH_7(op, __VA_ARGS__)
#define ETW_TLG_EACH_9(op, x, ...) op(9, x) ETW_TLG_EACH_8(op, __VA_ARGS__)
#define ETW_TLG_EACH_10(op, x, ...) op(10, x) ETW_TLG_EACH_9(op, __VA_ARGS__)
#define ETW_TLG_EACH_11(op, x, ...) op(11, x) ETW_TLG_EACH_10(op, __VA_ARGS__)
#define ETW_TLG_EACH_12(op, x, ...) op(12, x) ETW_TLG_EACH_11(op, __VA_ARGS__)
#define ETW_TLG_EACH_13(op, x, ...) op(13, x) ETW_TLG_EACH_12(op, __VA_ARGS__)
#define ETW_TLG_EACH_14(op, x, ...) op(14, x) ETW_TLG_EACH_13(op, __VA_ARGS__)
#define ETW_TLG_EACH_15(op, x, ...) op(15, x) ETW_TLG_EACH_14(op, __VA_ARGS__)
#define ETW_TLG_EACH_16(op, x, ...) op(16, x) ETW_TLG_EACH_15(op, __VA_ARGS__)
#define ETW_TLG_EACH_17(op, x, ...) op(17, x) ETW_TLG_EACH_16(op, __VA_ARGS__)
#define ETW_TLG_EACH_18(op, x, ...) op(18, x) ETW_TLG_EACH_17(op, __VA_ARGS__)
#define ETW_TLG_EACH_19(op, x, ...) op(19, x) ETW_TLG_EACH_18(op, __VA_ARGS__)
#define ETW_TLG_EACH_20(op, x, ...) op(20, x) ETW_TLG_EACH_19(op, __VA_ARGS__)
#define ETW_TLG_EACH_21(op, x, ...) op(21, x) ETW_TLG_EACH_20(op, __VA_ARGS__)
#define ETW_TLG_EACH_22(op, x, ...) op(22, x) ETW_TLG_EACH_21(op, __VA_ARGS__)
#define ETW_TLG_EACH_23(op, x, ...) op(23, x) ETW_TLG_EACH_22(op, __VA_ARGS__)
#define ETW_TLG_EACH_24(op, x, ...) op(24, x) ETW_TLG_EACH_23(op, __VA_ARGS__)
#define ETW_TLG_EACH_25(op, x, ...) op(25, x) ETW_TLG_EACH_24(op, __VA_ARGS__)
#define ETW_TLG_EACH_26(op, x, ...) op(26, x) ETW_TLG_EACH_25(op, __VA_ARGS__)
#define ETW_TLG_EACH_27(op, x, ...) op(27, x) ETW_TLG_EACH_26(op, __VA_ARGS__)
#define ETW_TLG_EACH_28(op, x, ...) op(28, x) ETW_TLG_EACH_27(op, __VA_ARGS__)
#define ETW_TLG_EACH_29(op, x, ...) op(29, x) ETW_TLG_EACH_28(op, __VA_ARGS__)
#define ETW_TLG_EACH_30(op, x, ...) op(30, x) ETW_TLG_EACH_29(op, __VA_ARGS__)
#define ETW_TLG_EACH_31(op, x, ...) op(31, x) ETW_TLG_EACH_30(op, __VA_ARGS__)
#define ETW_TLG_EACH_32(op, x, ...) op(32, x) ETW_TLG_EACH_31(op, __VA_ARGS__)
#define ETW_TLG_EACH_33(op, x, ...) op(33, x) ETW_TLG_EACH_32(op, __VA_ARGS__)
#define ETW_TLG_EACH_34(op, x, ...) op(34, x) ETW_TLG_EACH_33(op, __VA_ARGS__)
#define ETW_TLG_EACH_35(op, x, ...) op(35, x) ETW_TLG_EACH_34(op, __VA_ARGS__)
#define ETW_TLG_EACH_36(op, x, ...) op(36, x) ETW_TLG_EACH_35(op, __VA_ARGS__)
#define ETW_TLG_EACH_37(op, x, ...) op(37, x) ETW_TLG_EACH_36(op, __VA_ARGS__)
#define ETW_TLG_EACH_38(op, x, ...) op(38, x) ETW_TLG_EACH_37(op, __VA_ARGS__)
#define ETW_TLG_EACH_39(op, x, ...) op(39, x) ETW_TLG_EACH_38(op, __VA_ARGS__)
#define ETW_TLG_EACH_40(op, x, ...) op(40, x) ETW_TLG_EACH_39(op, __VA_ARGS__)
#define ETW_TLG_EACH_41(op, x, ...) op(41, x) ETW_TLG_EACH_40(op, __VA_ARGS__)
#define ETW_TLG_EACH_42(op, x, ...) op(42, x) ETW_TLG_EACH_41(op, __VA_ARGS__)
#define ETW_TLG_EACH_43(op, x, ...) op(43, x) ETW_TLG_EACH_42(op, __VA_ARGS__)
#define ETW_TLG_EACH_44(op, x, ...) op(44, x) ETW_TLG_EACH_43(op, __VA_ARGS__)
#define ETW_TLG_EACH_45(op, x, ...) op(45, x) ETW_TLG_EACH_44(op, __VA_ARGS__)
#define ETW_TLG_EACH_46(op, x, ...) op(46, x) ETW_TLG_EACH_45(op, __VA_ARGS__)
#define ETW_TLG_EACH_47(op, x, ...) op(47, x) ETW_TLG_EACH_46(op, __VA_ARGS__)
#define ETW_TLG_EACH_48(op, x, ...) op(48, x) ETW_TLG_EACH_47(op, __VA_ARGS__)
#define ETW_TLG_EACH_49(op, x, ...) op(49, x) ETW_TLG_EACH_48(op, __VA_ARGS__)
#define ETW_TLG_EACH_50(op, x, ...) op(50, x) ETW_TLG_EACH_49(op, __VA_ARGS__)
#define ETW_TLG_EACH_51(op, x, ...) op(51, x) ETW_TLG_EACH_50(op, __VA_ARGS__)
#define ETW_TLG_EACH_52(op, x, ...) op(52, x) ETW_TLG_EACH_51(op, __VA_ARGS__)
#define ETW_TLG_EACH_53(op, x, ...) op(53, x) ETW_TLG_EACH_52(op, __VA_ARGS__)
#define ETW_TLG_EACH_54(op, x, ...) op(54, x) ETW_TLG_EACH_53(op, __VA_ARGS__)
#define ETW_TLG_EACH_55(op, x, ...) op(55, x) ETW_TLG_EACH_54(op, __VA_ARGS__)
#define ETW_TLG_EACH_56(op, x, ...) op(56, x) ETW_TLG_EACH_55(op, __VA_ARGS__)
#define ETW_TLG_EACH_57(op, x, ...) op(57, x) ETW_TLG_EACH_56(op, __VA_ARGS__)
#define ETW_TLG_EACH_58(op, x, ...) op(58, x) ETW_TLG_EACH_57(op, __VA_ARGS__)
#define ETW_TLG_EACH_59(op, x, ...) op(59, x) ETW_TLG_EACH_58(op, __VA_ARGS__)
#define ETW_TLG_EACH_60(op, x, ...) op(60, x) ETW_TLG_EACH_59(op, __VA_ARGS__)
#define ETW_TLG_EACH_61(op, x, ...) op(61, x) ETW_TLG_EACH_60(op, __VA_ARGS__)
#define ETW_TLG_EACH_62(op, x, ...) op(62, x) ETW_TLG_EACH_61(op, __VA_ARGS__)
#define ETW_TLG_EACH_63(op, x, ...) op(63, x) ETW_TLG_EACH_62(op, __VA_ARGS__)
#define ETW_TLG_EACH_64(op, x, ...) op(64, x) ETW_TLG_EACH_63(op, __VA_ARGS__)
#define ETW_TLG_EACH_65(op, x, ...) op(65, x) ETW_TLG_EACH_64(op, __VA_ARGS__)
#define ETW_TLG_EACH_66(op, x, ...) op(66, x) ETW_TLG_EACH_65(op, __VA_ARGS__)
#define ETW_TLG_EACH_67(op, x, ...) op(67, x) ETW_TLG_EACH_66(op, __VA_ARGS__)
#define ETW_TLG_EACH_68(op, x, ...) op(68, x) ETW_TLG_EACH_67(op, __VA_ARGS__)
#define ETW_TLG_EACH_69(op, x, ...) op(69, x) ETW_TLG_EACH_68(op, __VA_ARGS__)
#define ETW_TLG_EACH_70(op, x, ...) op(70, x) ETW_TLG_EACH_69(op, __VA_ARGS__)
#define ETW_TLG_EACH_71(op, x, ...) op(71, x) ETW_TLG_EACH_70(op, __VA_ARGS__)
#define ETW_TLG_EACH_72(op, x, ...) op(72, x) ETW_TLG_EACH_71(op, __VA_ARGS__)
#define ETW_TLG_EACH_73(op, x, ...) op(73, x) ETW_TLG_EACH_72(op, __VA_ARGS__)
#define ETW_TLG_EACH_74(op, x, ...) op(74, x) ETW_TLG_EACH_73(op, __VA_ARGS__)
#define ETW_TLG_EACH_75(op, x, ...) op(75, x) ETW_TLG_EACH_74(op, __VA_ARGS__)
#define ETW_TLG_EACH_76(op, x, ...) op(76, x) ETW_TLG_EACH_75(op, __VA_ARGS__)
#define ETW_TLG_EACH_77(op, x, ...) op(77, x) ETW_TLG_EACH_76(op, __VA_ARGS__)
#define ETW_TLG_EACH_78(op, x, ...) op(78, x) ETW_TLG_EACH_77(op, __VA_ARGS__)
#define ETW_TLG_EACH_79(op, x, ...) op(79, x) ETW_TLG_EACH_78(op, __VA_ARGS__)
#define ETW_TLG_EACH_80(op, x, ...) op(80, x) ETW_TLG_EACH_79(op, __VA_ARGS__)
#define ETW_TLG_EACH_81(op, x, ...) op(81, x) ETW_TLG_EACH_80(op, __VA_ARGS__)
#define ETW_TLG_EACH_82(op, x, ...) op(82, x) ETW_TLG_EACH_81(op, __VA_ARGS__)
#define ETW_TLG_EACH_83(op, x, ...) op(83, x) ETW_TLG_EACH_82(op, __VA_ARGS__)
#define ETW_TLG_EACH_84(op, x, ...) op(84, x) ETW_TLG_EACH_83(op, __VA_ARGS__)
#define ETW_TLG_EACH_85(op, x, ...) op(85, x) ETW_TLG_EACH_84(op, __VA_ARGS__)
#define ETW_TLG_EACH_86(op, x, ...) op(86, x) ETW_TLG_EACH_85(op, __VA_ARGS__)
#define ETW_TLG_EACH_87(op, x, ...) op(87, x) ETW_TLG_EACH_86(op, __VA_ARGS__)
#define ETW_TLG_EACH_88(op, x, ...) op(88, x) ETW_TLG_EACH_87(op, __VA_ARGS__)
#define ETW_TLG_EACH_89(op, x, ...) op(89, x) ETW_TLG_EACH_88(op, __VA_ARGS__)
#define ETW_TLG_EACH_90(op, x, ...) op(90, x) ETW_TLG_EACH_89(op, __VA_ARGS__)
#define ETW_TLG_EACH_91(op, x, ...) op(91, x) ETW_TLG_EACH_90(op, __VA_ARGS__)
#define ETW_TLG_EACH_92(op, x, ...) op(92, x) ETW_TLG_EACH_91(op, __VA_ARGS__)
#define ETW_TLG_EACH_93(op, x, ...) op(93, x) ETW_TLG_EACH_92(op, __VA_ARGS__)
#define ETW_TLG_EACH_94(op, x, ...) op(94, x) ETW_TLG_EACH_93(op, __VA_ARGS__)
#define ETW_TLG_EACH_95(op, x, ...) op(95, x) ETW_TLG_EACH_94(op, __VA_ARGS__)
#define ETW_TLG_EACH_96(op, x, ...) op(96, x) ETW_TLG_EACH_95(op, __VA_ARGS__)
#define ETW_TLG_EACH_97(op, x, ...) op(97, x) ETW_TLG_EACH_96(op, __VA_ARGS__)
#define ETW_TLG_EACH_98(op, x, ...) op(98, x) ETW_TLG_EACH_97(op, __VA_ARGS__)
#define ETW_TLG_EACH_99(op, x, ...) op(99, x) ETW_TLG_EACH_98(op, __VA_ARGS__)
#define ETW_TLG_EACH_100(op, x, ...) op(100, x) ETW_TLG_EACH_99(op, __VA_ARGS__)
#define ETW_TLG_EACH_101(op, x, ...) op(101, x) ETW_TLG_EACH_100(op, __VA_ARGS__)
#define ETW_TLG_EACH_102(op, x, ...) op(102, x) ETW_TLG_EACH_101(op, __VA_ARGS__)
#define ETW_TLG_EACH_103(op, x, ...) op(103, x) ETW_TLG_EACH_102(op, __VA_ARGS__)
#define ETW_TLG_EACH_104(op, x, ...) op(104, x) ETW_TLG_EACH_103(op, __VA_ARGS__)
#define ETW_TLG_EACH_105(op, x, ...) op(105, x) ETW_TLG_EACH_104(op, __VA_ARGS__)
#define ETW_TLG_EACH_106(op, x, ...) op(106, x) ETW_TLG_EACH_105(op, __VA_ARGS__)
#define ETW_TLG_EACH_107(op, x, ...) op(107, x) ETW_TLG_EACH_106(op, __VA_ARGS__)
#define ETW_TLG_EACH_108(op, x, ...) op(108, x) ETW_TLG_EACH_107(op, __VA_ARGS__)
#define ETW_TLG_EACH_109(op, x, ...) op(109, x) ETW_TLG_EACH_108(op, __VA_ARGS__)
#define ETW_TLG_EACH_110(op, x, ...) op(110, x) ETW_TLG_EACH_109(op, __VA_ARGS__)
#define ETW_TLG_EACH_111(op, x, ...) op(111, x) ETW_TLG_EACH_110(op, __VA_ARGS__)
#define ETW_TLG_EACH_112(op, x, ...) op(112, x) ETW_TLG_EACH_111(op, __VA_ARGS__)
#define ETW_TLG_EACH_113(op, x, ...) op(113, x) ETW_TLG_EACH_112(op, __VA_ARGS__)
#define ETW_TLG_EACH_114(op, x, ...) op(114, x) ETW_TLG_EACH_113(op, __VA_ARGS__)
#define ETW_TLG_EACH_115(op, x, ...) op(115, x) ETW_TLG_EACH_114(op, __VA_ARGS__)
#define ETW_TLG_EACH_116(op, x, ...) op(116, x) ETW_TLG_EACH_115(op, __VA_ARGS__)
#define ETW_TLG_EACH_117(op, x, ...) op(117, x) ETW_TLG_EACH_116(op, __VA_ARGS__)
#define ETW_TLG_EACH_118(op, x, ...) op(118, x) ETW_TLG_EACH_117(op, __VA_ARGS__)
#define ETW_TLG_EACH_119(op, x, ...) op(119, x) ETW_TLG_EACH_118(op, __VA_ARGS__)
#define ETW_TLG_EACH_120(op, x, ...) op(120, x) ETW_TLG_EACH_119(op, __VA_ARGS__)
#define ETW_TLG_EACH_121(op, x, ...) op(121, x) ETW_TLG_EACH_120(op, __VA_ARGS__)
#define ETW_TLG_EACH_122(op, x, ...) op(122, x) ETW_TLG_EACH_121(op, __VA_ARGS__)
#define ETW_TLG_EACH_123(op, x, ...) op(123, x) ETW_TLG_EACH_122(op, __VA_ARGS__)
#define ETW_TLG_EACH_124(op, x, ...) op(124, x) ETW_TLG_EACH_123(op, __VA_ARGS__)
#define ETW_TLG_EACH_125(op, x, ...) op(125, x) ETW_TLG_EACH_124(op, __VA_ARGS__)
#define ETW_TLG_EACH_126(op, x, ...) op(126, x) ETW_TLG_EACH_125(op, __VA_ARGS__)
#define ETW_TLG_EACH_127(op, x, ...) op(127, x) ETW_TLG_EACH_126(op, __VA_ARGS__)
#define ETW_TLG_EACH_128(op, x, ...) op(128, x) ETW_TLG_EACH_127(op, __VA_ARGS__)
/* clang-format on */

#endif

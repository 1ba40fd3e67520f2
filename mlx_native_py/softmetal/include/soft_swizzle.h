// Swizzles of two to four components as properties; those that repeat no component can be assigned.
#pragma once
#include "soft_types.h"

// Reads take the whole vector and shuffle; writes touch only the named components.
#define SOFT_READ(x, N, ...)                                                                                  \
  SOFT_MEMBER vec<T, N> get_##x() const {                                                                     \
    return vec<T, N>(__builtin_shufflevector(self().whole(), self().whole(), __VA_ARGS__));                   \
  }
#define SOFT_RO(x, r, N, ...) SOFT_READ(x, N, __VA_ARGS__) __declspec(property(get = get_##x)) vec<T, N> x, r;
#define SOFT_RW(x, r, N, puts, ...)                                                                           \
  SOFT_READ(x, N, __VA_ARGS__)                                                                                \
  SOFT_MEMBER void put_##x(vec<T, N> v) { puts; }                                                             \
  __declspec(property(get = get_##x, put = put_##x)) vec<T, N> x, r;
#define SOFT_PUT(i, n) self().put(i, v.at(n))
#define SOFT_RO2(x, r, i, j) SOFT_RO(x, r, 2, i, j)
#define SOFT_RO3(x, r, i, j, k) SOFT_RO(x, r, 3, i, j, k)
#define SOFT_RO4(x, r, i, j, k, l) SOFT_RO(x, r, 4, i, j, k, l)
#define SOFT_RW2(x, r, i, j) SOFT_RW(x, r, 2, (SOFT_PUT(i, 0), SOFT_PUT(j, 1)), i, j)
#define SOFT_RW3(x, r, i, j, k) SOFT_RW(x, r, 3, (SOFT_PUT(i, 0), SOFT_PUT(j, 1), SOFT_PUT(k, 2)), i, j, k)
#define SOFT_RW4(x, r, i, j, k, l)                                                                            \
  SOFT_RW(x, r, 4, (SOFT_PUT(i, 0), SOFT_PUT(j, 1), SOFT_PUT(k, 2), SOFT_PUT(l, 3)), i, j, k, l)
#define SOFT_SELF                                                                                             \
  SOFT_MEMBER const Self &self() const { return static_cast<const Self &>(*this); }                           \
  SOFT_MEMBER Self &self() { return static_cast<Self &>(*this); }

// Components x and y.
#define SOFT_SWIZZLES2 \
  SOFT_RO2(xx, rr, 0, 0) SOFT_RW2(xy, rg, 0, 1) SOFT_RW2(yx, gr, 1, 0) \
  SOFT_RO2(yy, gg, 1, 1) SOFT_RO3(xxx, rrr, 0, 0, 0) SOFT_RO3(xxy, rrg, 0, 0, 1) SOFT_RO3(xyx, rgr, 0, 1, 0) \
  SOFT_RO3(xyy, rgg, 0, 1, 1) SOFT_RO3(yxx, grr, 1, 0, 0) SOFT_RO3(yxy, grg, 1, 0, 1) \
  SOFT_RO3(yyx, ggr, 1, 1, 0) SOFT_RO3(yyy, ggg, 1, 1, 1) SOFT_RO4(xxxx, rrrr, 0, 0, 0, 0) \
  SOFT_RO4(xxxy, rrrg, 0, 0, 0, 1) SOFT_RO4(xxyx, rrgr, 0, 0, 1, 0) SOFT_RO4(xxyy, rrgg, 0, 0, 1, 1) \
  SOFT_RO4(xyxx, rgrr, 0, 1, 0, 0) SOFT_RO4(xyxy, rgrg, 0, 1, 0, 1) SOFT_RO4(xyyx, rggr, 0, 1, 1, 0) \
  SOFT_RO4(xyyy, rggg, 0, 1, 1, 1) SOFT_RO4(yxxx, grrr, 1, 0, 0, 0) SOFT_RO4(yxxy, grrg, 1, 0, 0, 1) \
  SOFT_RO4(yxyx, grgr, 1, 0, 1, 0) SOFT_RO4(yxyy, grgg, 1, 0, 1, 1) SOFT_RO4(yyxx, ggrr, 1, 1, 0, 0) \
  SOFT_RO4(yyxy, ggrg, 1, 1, 0, 1) SOFT_RO4(yyyx, gggr, 1, 1, 1, 0) SOFT_RO4(yyyy, gggg, 1, 1, 1, 1)

// What the third component adds.
#define SOFT_SWIZZLES3 \
  SOFT_RW2(xz, rb, 0, 2) SOFT_RW2(yz, gb, 1, 2) SOFT_RW2(zx, br, 2, 0) \
  SOFT_RW2(zy, bg, 2, 1) SOFT_RO2(zz, bb, 2, 2) SOFT_RO3(xxz, rrb, 0, 0, 2) SOFT_RW3(xyz, rgb, 0, 1, 2) \
  SOFT_RO3(xzx, rbr, 0, 2, 0) SOFT_RW3(xzy, rbg, 0, 2, 1) SOFT_RO3(xzz, rbb, 0, 2, 2) \
  SOFT_RW3(yxz, grb, 1, 0, 2) SOFT_RO3(yyz, ggb, 1, 1, 2) SOFT_RW3(yzx, gbr, 1, 2, 0) \
  SOFT_RO3(yzy, gbg, 1, 2, 1) SOFT_RO3(yzz, gbb, 1, 2, 2) SOFT_RO3(zxx, brr, 2, 0, 0) \
  SOFT_RW3(zxy, brg, 2, 0, 1) SOFT_RO3(zxz, brb, 2, 0, 2) SOFT_RW3(zyx, bgr, 2, 1, 0) \
  SOFT_RO3(zyy, bgg, 2, 1, 1) SOFT_RO3(zyz, bgb, 2, 1, 2) SOFT_RO3(zzx, bbr, 2, 2, 0) \
  SOFT_RO3(zzy, bbg, 2, 2, 1) SOFT_RO3(zzz, bbb, 2, 2, 2) SOFT_RO4(xxxz, rrrb, 0, 0, 0, 2) \
  SOFT_RO4(xxyz, rrgb, 0, 0, 1, 2) SOFT_RO4(xxzx, rrbr, 0, 0, 2, 0) SOFT_RO4(xxzy, rrbg, 0, 0, 2, 1) \
  SOFT_RO4(xxzz, rrbb, 0, 0, 2, 2) SOFT_RO4(xyxz, rgrb, 0, 1, 0, 2) SOFT_RO4(xyyz, rggb, 0, 1, 1, 2) \
  SOFT_RO4(xyzx, rgbr, 0, 1, 2, 0) SOFT_RO4(xyzy, rgbg, 0, 1, 2, 1) SOFT_RO4(xyzz, rgbb, 0, 1, 2, 2) \
  SOFT_RO4(xzxx, rbrr, 0, 2, 0, 0) SOFT_RO4(xzxy, rbrg, 0, 2, 0, 1) SOFT_RO4(xzxz, rbrb, 0, 2, 0, 2) \
  SOFT_RO4(xzyx, rbgr, 0, 2, 1, 0) SOFT_RO4(xzyy, rbgg, 0, 2, 1, 1) SOFT_RO4(xzyz, rbgb, 0, 2, 1, 2) \
  SOFT_RO4(xzzx, rbbr, 0, 2, 2, 0) SOFT_RO4(xzzy, rbbg, 0, 2, 2, 1) SOFT_RO4(xzzz, rbbb, 0, 2, 2, 2) \
  SOFT_RO4(yxxz, grrb, 1, 0, 0, 2) SOFT_RO4(yxyz, grgb, 1, 0, 1, 2) SOFT_RO4(yxzx, grbr, 1, 0, 2, 0) \
  SOFT_RO4(yxzy, grbg, 1, 0, 2, 1) SOFT_RO4(yxzz, grbb, 1, 0, 2, 2) SOFT_RO4(yyxz, ggrb, 1, 1, 0, 2) \
  SOFT_RO4(yyyz, gggb, 1, 1, 1, 2) SOFT_RO4(yyzx, ggbr, 1, 1, 2, 0) SOFT_RO4(yyzy, ggbg, 1, 1, 2, 1) \
  SOFT_RO4(yyzz, ggbb, 1, 1, 2, 2) SOFT_RO4(yzxx, gbrr, 1, 2, 0, 0) SOFT_RO4(yzxy, gbrg, 1, 2, 0, 1) \
  SOFT_RO4(yzxz, gbrb, 1, 2, 0, 2) SOFT_RO4(yzyx, gbgr, 1, 2, 1, 0) SOFT_RO4(yzyy, gbgg, 1, 2, 1, 1) \
  SOFT_RO4(yzyz, gbgb, 1, 2, 1, 2) SOFT_RO4(yzzx, gbbr, 1, 2, 2, 0) SOFT_RO4(yzzy, gbbg, 1, 2, 2, 1) \
  SOFT_RO4(yzzz, gbbb, 1, 2, 2, 2) SOFT_RO4(zxxx, brrr, 2, 0, 0, 0) SOFT_RO4(zxxy, brrg, 2, 0, 0, 1) \
  SOFT_RO4(zxxz, brrb, 2, 0, 0, 2) SOFT_RO4(zxyx, brgr, 2, 0, 1, 0) SOFT_RO4(zxyy, brgg, 2, 0, 1, 1) \
  SOFT_RO4(zxyz, brgb, 2, 0, 1, 2) SOFT_RO4(zxzx, brbr, 2, 0, 2, 0) SOFT_RO4(zxzy, brbg, 2, 0, 2, 1) \
  SOFT_RO4(zxzz, brbb, 2, 0, 2, 2) SOFT_RO4(zyxx, bgrr, 2, 1, 0, 0) SOFT_RO4(zyxy, bgrg, 2, 1, 0, 1) \
  SOFT_RO4(zyxz, bgrb, 2, 1, 0, 2) SOFT_RO4(zyyx, bggr, 2, 1, 1, 0) SOFT_RO4(zyyy, bggg, 2, 1, 1, 1) \
  SOFT_RO4(zyyz, bggb, 2, 1, 1, 2) SOFT_RO4(zyzx, bgbr, 2, 1, 2, 0) SOFT_RO4(zyzy, bgbg, 2, 1, 2, 1) \
  SOFT_RO4(zyzz, bgbb, 2, 1, 2, 2) SOFT_RO4(zzxx, bbrr, 2, 2, 0, 0) SOFT_RO4(zzxy, bbrg, 2, 2, 0, 1) \
  SOFT_RO4(zzxz, bbrb, 2, 2, 0, 2) SOFT_RO4(zzyx, bbgr, 2, 2, 1, 0) SOFT_RO4(zzyy, bbgg, 2, 2, 1, 1) \
  SOFT_RO4(zzyz, bbgb, 2, 2, 1, 2) SOFT_RO4(zzzx, bbbr, 2, 2, 2, 0) SOFT_RO4(zzzy, bbbg, 2, 2, 2, 1) \
  SOFT_RO4(zzzz, bbbb, 2, 2, 2, 2)

// What the fourth component adds.
#define SOFT_SWIZZLES4 \
  SOFT_RW2(xw, ra, 0, 3) SOFT_RW2(yw, ga, 1, 3) SOFT_RW2(zw, ba, 2, 3) \
  SOFT_RW2(wx, ar, 3, 0) SOFT_RW2(wy, ag, 3, 1) SOFT_RW2(wz, ab, 3, 2) SOFT_RO2(ww, aa, 3, 3) \
  SOFT_RO3(xxw, rra, 0, 0, 3) SOFT_RW3(xyw, rga, 0, 1, 3) SOFT_RW3(xzw, rba, 0, 2, 3) \
  SOFT_RO3(xwx, rar, 0, 3, 0) SOFT_RW3(xwy, rag, 0, 3, 1) SOFT_RW3(xwz, rab, 0, 3, 2) \
  SOFT_RO3(xww, raa, 0, 3, 3) SOFT_RW3(yxw, gra, 1, 0, 3) SOFT_RO3(yyw, gga, 1, 1, 3) \
  SOFT_RW3(yzw, gba, 1, 2, 3) SOFT_RW3(ywx, gar, 1, 3, 0) SOFT_RO3(ywy, gag, 1, 3, 1) \
  SOFT_RW3(ywz, gab, 1, 3, 2) SOFT_RO3(yww, gaa, 1, 3, 3) SOFT_RW3(zxw, bra, 2, 0, 3) \
  SOFT_RW3(zyw, bga, 2, 1, 3) SOFT_RO3(zzw, bba, 2, 2, 3) SOFT_RW3(zwx, bar, 2, 3, 0) \
  SOFT_RW3(zwy, bag, 2, 3, 1) SOFT_RO3(zwz, bab, 2, 3, 2) SOFT_RO3(zww, baa, 2, 3, 3) \
  SOFT_RO3(wxx, arr, 3, 0, 0) SOFT_RW3(wxy, arg, 3, 0, 1) SOFT_RW3(wxz, arb, 3, 0, 2) \
  SOFT_RO3(wxw, ara, 3, 0, 3) SOFT_RW3(wyx, agr, 3, 1, 0) SOFT_RO3(wyy, agg, 3, 1, 1) \
  SOFT_RW3(wyz, agb, 3, 1, 2) SOFT_RO3(wyw, aga, 3, 1, 3) SOFT_RW3(wzx, abr, 3, 2, 0) \
  SOFT_RW3(wzy, abg, 3, 2, 1) SOFT_RO3(wzz, abb, 3, 2, 2) SOFT_RO3(wzw, aba, 3, 2, 3) \
  SOFT_RO3(wwx, aar, 3, 3, 0) SOFT_RO3(wwy, aag, 3, 3, 1) SOFT_RO3(wwz, aab, 3, 3, 2) \
  SOFT_RO3(www, aaa, 3, 3, 3) SOFT_RO4(xxxw, rrra, 0, 0, 0, 3) SOFT_RO4(xxyw, rrga, 0, 0, 1, 3) \
  SOFT_RO4(xxzw, rrba, 0, 0, 2, 3) SOFT_RO4(xxwx, rrar, 0, 0, 3, 0) SOFT_RO4(xxwy, rrag, 0, 0, 3, 1) \
  SOFT_RO4(xxwz, rrab, 0, 0, 3, 2) SOFT_RO4(xxww, rraa, 0, 0, 3, 3) SOFT_RO4(xyxw, rgra, 0, 1, 0, 3) \
  SOFT_RO4(xyyw, rgga, 0, 1, 1, 3) SOFT_RW4(xyzw, rgba, 0, 1, 2, 3) SOFT_RO4(xywx, rgar, 0, 1, 3, 0) \
  SOFT_RO4(xywy, rgag, 0, 1, 3, 1) SOFT_RW4(xywz, rgab, 0, 1, 3, 2) SOFT_RO4(xyww, rgaa, 0, 1, 3, 3) \
  SOFT_RO4(xzxw, rbra, 0, 2, 0, 3) SOFT_RW4(xzyw, rbga, 0, 2, 1, 3) SOFT_RO4(xzzw, rbba, 0, 2, 2, 3) \
  SOFT_RO4(xzwx, rbar, 0, 2, 3, 0) SOFT_RW4(xzwy, rbag, 0, 2, 3, 1) SOFT_RO4(xzwz, rbab, 0, 2, 3, 2) \
  SOFT_RO4(xzww, rbaa, 0, 2, 3, 3) SOFT_RO4(xwxx, rarr, 0, 3, 0, 0) SOFT_RO4(xwxy, rarg, 0, 3, 0, 1) \
  SOFT_RO4(xwxz, rarb, 0, 3, 0, 2) SOFT_RO4(xwxw, rara, 0, 3, 0, 3) SOFT_RO4(xwyx, ragr, 0, 3, 1, 0) \
  SOFT_RO4(xwyy, ragg, 0, 3, 1, 1) SOFT_RW4(xwyz, ragb, 0, 3, 1, 2) SOFT_RO4(xwyw, raga, 0, 3, 1, 3) \
  SOFT_RO4(xwzx, rabr, 0, 3, 2, 0) SOFT_RW4(xwzy, rabg, 0, 3, 2, 1) SOFT_RO4(xwzz, rabb, 0, 3, 2, 2) \
  SOFT_RO4(xwzw, raba, 0, 3, 2, 3) SOFT_RO4(xwwx, raar, 0, 3, 3, 0) SOFT_RO4(xwwy, raag, 0, 3, 3, 1) \
  SOFT_RO4(xwwz, raab, 0, 3, 3, 2) SOFT_RO4(xwww, raaa, 0, 3, 3, 3) SOFT_RO4(yxxw, grra, 1, 0, 0, 3) \
  SOFT_RO4(yxyw, grga, 1, 0, 1, 3) SOFT_RW4(yxzw, grba, 1, 0, 2, 3) SOFT_RO4(yxwx, grar, 1, 0, 3, 0) \
  SOFT_RO4(yxwy, grag, 1, 0, 3, 1) SOFT_RW4(yxwz, grab, 1, 0, 3, 2) SOFT_RO4(yxww, graa, 1, 0, 3, 3) \
  SOFT_RO4(yyxw, ggra, 1, 1, 0, 3) SOFT_RO4(yyyw, ggga, 1, 1, 1, 3) SOFT_RO4(yyzw, ggba, 1, 1, 2, 3) \
  SOFT_RO4(yywx, ggar, 1, 1, 3, 0) SOFT_RO4(yywy, ggag, 1, 1, 3, 1) SOFT_RO4(yywz, ggab, 1, 1, 3, 2) \
  SOFT_RO4(yyww, ggaa, 1, 1, 3, 3) SOFT_RW4(yzxw, gbra, 1, 2, 0, 3) SOFT_RO4(yzyw, gbga, 1, 2, 1, 3) \
  SOFT_RO4(yzzw, gbba, 1, 2, 2, 3) SOFT_RW4(yzwx, gbar, 1, 2, 3, 0) SOFT_RO4(yzwy, gbag, 1, 2, 3, 1) \
  SOFT_RO4(yzwz, gbab, 1, 2, 3, 2) SOFT_RO4(yzww, gbaa, 1, 2, 3, 3) SOFT_RO4(ywxx, garr, 1, 3, 0, 0) \
  SOFT_RO4(ywxy, garg, 1, 3, 0, 1) SOFT_RW4(ywxz, garb, 1, 3, 0, 2) SOFT_RO4(ywxw, gara, 1, 3, 0, 3) \
  SOFT_RO4(ywyx, gagr, 1, 3, 1, 0) SOFT_RO4(ywyy, gagg, 1, 3, 1, 1) SOFT_RO4(ywyz, gagb, 1, 3, 1, 2) \
  SOFT_RO4(ywyw, gaga, 1, 3, 1, 3) SOFT_RW4(ywzx, gabr, 1, 3, 2, 0) SOFT_RO4(ywzy, gabg, 1, 3, 2, 1) \
  SOFT_RO4(ywzz, gabb, 1, 3, 2, 2) SOFT_RO4(ywzw, gaba, 1, 3, 2, 3) SOFT_RO4(ywwx, gaar, 1, 3, 3, 0) \
  SOFT_RO4(ywwy, gaag, 1, 3, 3, 1) SOFT_RO4(ywwz, gaab, 1, 3, 3, 2) SOFT_RO4(ywww, gaaa, 1, 3, 3, 3) \
  SOFT_RO4(zxxw, brra, 2, 0, 0, 3) SOFT_RW4(zxyw, brga, 2, 0, 1, 3) SOFT_RO4(zxzw, brba, 2, 0, 2, 3) \
  SOFT_RO4(zxwx, brar, 2, 0, 3, 0) SOFT_RW4(zxwy, brag, 2, 0, 3, 1) SOFT_RO4(zxwz, brab, 2, 0, 3, 2) \
  SOFT_RO4(zxww, braa, 2, 0, 3, 3) SOFT_RW4(zyxw, bgra, 2, 1, 0, 3) SOFT_RO4(zyyw, bgga, 2, 1, 1, 3) \
  SOFT_RO4(zyzw, bgba, 2, 1, 2, 3) SOFT_RW4(zywx, bgar, 2, 1, 3, 0) SOFT_RO4(zywy, bgag, 2, 1, 3, 1) \
  SOFT_RO4(zywz, bgab, 2, 1, 3, 2) SOFT_RO4(zyww, bgaa, 2, 1, 3, 3) SOFT_RO4(zzxw, bbra, 2, 2, 0, 3) \
  SOFT_RO4(zzyw, bbga, 2, 2, 1, 3) SOFT_RO4(zzzw, bbba, 2, 2, 2, 3) SOFT_RO4(zzwx, bbar, 2, 2, 3, 0) \
  SOFT_RO4(zzwy, bbag, 2, 2, 3, 1) SOFT_RO4(zzwz, bbab, 2, 2, 3, 2) SOFT_RO4(zzww, bbaa, 2, 2, 3, 3) \
  SOFT_RO4(zwxx, barr, 2, 3, 0, 0) SOFT_RW4(zwxy, barg, 2, 3, 0, 1) SOFT_RO4(zwxz, barb, 2, 3, 0, 2) \
  SOFT_RO4(zwxw, bara, 2, 3, 0, 3) SOFT_RW4(zwyx, bagr, 2, 3, 1, 0) SOFT_RO4(zwyy, bagg, 2, 3, 1, 1) \
  SOFT_RO4(zwyz, bagb, 2, 3, 1, 2) SOFT_RO4(zwyw, baga, 2, 3, 1, 3) SOFT_RO4(zwzx, babr, 2, 3, 2, 0) \
  SOFT_RO4(zwzy, babg, 2, 3, 2, 1) SOFT_RO4(zwzz, babb, 2, 3, 2, 2) SOFT_RO4(zwzw, baba, 2, 3, 2, 3) \
  SOFT_RO4(zwwx, baar, 2, 3, 3, 0) SOFT_RO4(zwwy, baag, 2, 3, 3, 1) SOFT_RO4(zwwz, baab, 2, 3, 3, 2) \
  SOFT_RO4(zwww, baaa, 2, 3, 3, 3) SOFT_RO4(wxxx, arrr, 3, 0, 0, 0) SOFT_RO4(wxxy, arrg, 3, 0, 0, 1) \
  SOFT_RO4(wxxz, arrb, 3, 0, 0, 2) SOFT_RO4(wxxw, arra, 3, 0, 0, 3) SOFT_RO4(wxyx, argr, 3, 0, 1, 0) \
  SOFT_RO4(wxyy, argg, 3, 0, 1, 1) SOFT_RW4(wxyz, argb, 3, 0, 1, 2) SOFT_RO4(wxyw, arga, 3, 0, 1, 3) \
  SOFT_RO4(wxzx, arbr, 3, 0, 2, 0) SOFT_RW4(wxzy, arbg, 3, 0, 2, 1) SOFT_RO4(wxzz, arbb, 3, 0, 2, 2) \
  SOFT_RO4(wxzw, arba, 3, 0, 2, 3) SOFT_RO4(wxwx, arar, 3, 0, 3, 0) SOFT_RO4(wxwy, arag, 3, 0, 3, 1) \
  SOFT_RO4(wxwz, arab, 3, 0, 3, 2) SOFT_RO4(wxww, araa, 3, 0, 3, 3) SOFT_RO4(wyxx, agrr, 3, 1, 0, 0) \
  SOFT_RO4(wyxy, agrg, 3, 1, 0, 1) SOFT_RW4(wyxz, agrb, 3, 1, 0, 2) SOFT_RO4(wyxw, agra, 3, 1, 0, 3) \
  SOFT_RO4(wyyx, aggr, 3, 1, 1, 0) SOFT_RO4(wyyy, aggg, 3, 1, 1, 1) SOFT_RO4(wyyz, aggb, 3, 1, 1, 2) \
  SOFT_RO4(wyyw, agga, 3, 1, 1, 3) SOFT_RW4(wyzx, agbr, 3, 1, 2, 0) SOFT_RO4(wyzy, agbg, 3, 1, 2, 1) \
  SOFT_RO4(wyzz, agbb, 3, 1, 2, 2) SOFT_RO4(wyzw, agba, 3, 1, 2, 3) SOFT_RO4(wywx, agar, 3, 1, 3, 0) \
  SOFT_RO4(wywy, agag, 3, 1, 3, 1) SOFT_RO4(wywz, agab, 3, 1, 3, 2) SOFT_RO4(wyww, agaa, 3, 1, 3, 3) \
  SOFT_RO4(wzxx, abrr, 3, 2, 0, 0) SOFT_RW4(wzxy, abrg, 3, 2, 0, 1) SOFT_RO4(wzxz, abrb, 3, 2, 0, 2) \
  SOFT_RO4(wzxw, abra, 3, 2, 0, 3) SOFT_RW4(wzyx, abgr, 3, 2, 1, 0) SOFT_RO4(wzyy, abgg, 3, 2, 1, 1) \
  SOFT_RO4(wzyz, abgb, 3, 2, 1, 2) SOFT_RO4(wzyw, abga, 3, 2, 1, 3) SOFT_RO4(wzzx, abbr, 3, 2, 2, 0) \
  SOFT_RO4(wzzy, abbg, 3, 2, 2, 1) SOFT_RO4(wzzz, abbb, 3, 2, 2, 2) SOFT_RO4(wzzw, abba, 3, 2, 2, 3) \
  SOFT_RO4(wzwx, abar, 3, 2, 3, 0) SOFT_RO4(wzwy, abag, 3, 2, 3, 1) SOFT_RO4(wzwz, abab, 3, 2, 3, 2) \
  SOFT_RO4(wzww, abaa, 3, 2, 3, 3) SOFT_RO4(wwxx, aarr, 3, 3, 0, 0) SOFT_RO4(wwxy, aarg, 3, 3, 0, 1) \
  SOFT_RO4(wwxz, aarb, 3, 3, 0, 2) SOFT_RO4(wwxw, aara, 3, 3, 0, 3) SOFT_RO4(wwyx, aagr, 3, 3, 1, 0) \
  SOFT_RO4(wwyy, aagg, 3, 3, 1, 1) SOFT_RO4(wwyz, aagb, 3, 3, 1, 2) SOFT_RO4(wwyw, aaga, 3, 3, 1, 3) \
  SOFT_RO4(wwzx, aabr, 3, 3, 2, 0) SOFT_RO4(wwzy, aabg, 3, 3, 2, 1) SOFT_RO4(wwzz, aabb, 3, 3, 2, 2) \
  SOFT_RO4(wwzw, aaba, 3, 3, 2, 3) SOFT_RO4(wwwx, aaar, 3, 3, 3, 0) SOFT_RO4(wwwy, aaag, 3, 3, 3, 1) \
  SOFT_RO4(wwwz, aaab, 3, 3, 3, 2) SOFT_RO4(wwww, aaaa, 3, 3, 3, 3)

namespace metal {
// Bases of vec and packed_vec, which give whole(), at() and put().
template <class Self, class T, int N> struct swizzles;
template <class Self, class T> struct swizzles<Self, T, 2> {
  SOFT_SELF
  SOFT_SWIZZLES2
};
template <class Self, class T> struct swizzles<Self, T, 3> : swizzles<Self, T, 2> {
  SOFT_SELF
  SOFT_SWIZZLES3
};
template <class Self, class T> struct swizzles<Self, T, 4> : swizzles<Self, T, 3> {
  SOFT_SELF
  SOFT_SWIZZLES4
};
}  // namespace metal

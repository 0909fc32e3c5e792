/* Conversions: all 65536 patterns of both 16-bit formats, and every rounding boundary. */
#include "support/support.h"

#include "base/parallel.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { PATTERNS = 1 << 16 };

typedef struct format {
    grail_dtype dtype;
    int exponent_bits;
    int mantissa_bits;
} format;

static const format formats[] = {{GRAIL_DTYPE_F16, 5, 10}, {GRAIL_DTYPE_BF16, 8, 7}};

/* Value of a pattern by the definition of the format, in double. */
static double value_of(const format *f, unsigned pattern)
{
    const int exponent_mask = (1 << f->exponent_bits) - 1;
    const int exponent = (int)(pattern >> f->mantissa_bits) & exponent_mask;
    const int mantissa = (int)pattern & ((1 << f->mantissa_bits) - 1);
    const int bias = exponent_mask / 2;
    double value = 0;
    if (exponent == exponent_mask) {
        value = mantissa == 0 ? (double)INFINITY : (double)NAN;
    } else if (exponent == 0) {
        value = ldexp(mantissa, 1 - bias - f->mantissa_bits);
    } else {
        value = ldexp(mantissa + (1 << f->mantissa_bits), exponent - bias - f->mantissa_bits);
    }
    return (pattern & 0x8000U) != 0 ? -value : value;
}

static unsigned infinity_of(const format *f)
{
    return ((1U << f->exponent_bits) - 1) << f->mantissa_bits;
}

static grail_status narrow_one(const format *f, float value, unsigned *out)
{
    uint16_t pattern = 0;
    const grail_status status = convert_from_f32(f->dtype, &value, 1, &pattern);
    *out = pattern;
    return status;
}

static unsigned narrow(const format *f, float value)
{
    unsigned pattern = 0;
    assert_ok(narrow_one(f, value, &pattern));
    return pattern;
}

TEST(test_every_pattern_widens_to_its_value)
{
    static uint16_t patterns[PATTERNS];
    static float values[PATTERNS];
    for (unsigned i = 0; i < PATTERNS; i++) {
        patterns[i] = (uint16_t)i;
    }
    for (int k = 0; k < 2; k++) {
        assert_ok(convert_to_f32(formats[k].dtype, patterns, PATTERNS, values));
        for (unsigned i = 0; i < PATTERNS; i++) {
            const double expected = value_of(&formats[k], i);
            if (isnan(expected)) {
                assert_true(isnan(values[i]));
            } else {
                assert_true((double)values[i] == expected);
                assert_int_equal(signbit(values[i]) != 0, i >> 15);
            }
        }
    }
}

TEST(test_every_pattern_survives_the_round_trip)
{
    static uint16_t patterns[PATTERNS];
    static uint16_t again[PATTERNS];
    static float values[PATTERNS];
    for (unsigned i = 0; i < PATTERNS; i++) {
        patterns[i] = (uint16_t)i;
    }
    for (int k = 0; k < 2; k++) {
        assert_ok(convert_to_f32(formats[k].dtype, patterns, PATTERNS, values));
        assert_ok(convert_from_f32(formats[k].dtype, values, PATTERNS, again));
        assert_memory_equal(patterns, again, sizeof patterns);
    }
}

/* Halfway between two neighbours lies in f32 for both formats; just beside it, the nearer wins. */
TEST(test_rounding_is_to_nearest_even_at_every_boundary)
{
    for (int k = 0; k < 2; k++) {
        const format *f = &formats[k];
        for (unsigned low = 0; low + 1 < infinity_of(f); low++) {
            const float middle = (float)((value_of(f, low) + value_of(f, low + 1)) / 2);
            const unsigned even = low % 2 == 0 ? low : low + 1;
            assert_int_equal(narrow(f, middle), even);
            assert_int_equal(narrow(f, -middle), even | 0x8000U);
            assert_int_equal(narrow(f, nextafterf(middle, 0)), low);
            assert_int_equal(narrow(f, nextafterf(middle, INFINITY)), low + 1);
        }
    }
}

TEST(test_overflow_begins_half_a_unit_above_the_largest_value)
{
    for (int k = 0; k < 2; k++) {
        const format *f = &formats[k];
        const unsigned largest = infinity_of(f) - 1;
        const double unit = value_of(f, largest) - value_of(f, largest - 1);
        const float limit = (float)(value_of(f, largest) + unit / 2);
        unsigned pattern = 0;
        assert_int_equal(narrow(f, nextafterf(limit, 0)), largest);
        assert_fails(narrow_one(f, limit, &pattern), GRAIL_ERROR_NUMERIC, "index 0");
        assert_fails(narrow_one(f, -limit, &pattern), GRAIL_ERROR_NUMERIC,
                     grail_dtype_name(f->dtype));
        assert_fails(narrow_one(f, 3.4028235e38F, &pattern), GRAIL_ERROR_NUMERIC, "beyond");
    }
}

TEST(test_infinity_is_kept_without_error)
{
    for (int k = 0; k < 2; k++) {
        assert_int_equal(narrow(&formats[k], INFINITY), infinity_of(&formats[k]));
        assert_int_equal(narrow(&formats[k], -INFINITY), infinity_of(&formats[k]) | 0x8000U);
    }
}

TEST(test_a_nan_whose_payload_is_lost_stays_a_nan)
{
    const uint32_t bits = 0xff800001U;
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    for (int k = 0; k < 2; k++) {
        const unsigned quiet = 1U << (formats[k].mantissa_bits - 1);
        assert_int_equal(narrow(&formats[k], value), 0x8000U | infinity_of(&formats[k]) | quiet);
    }
}

TEST(test_f32_subnormals_round_to_the_nearest_pattern)
{
    assert_int_equal(narrow(&formats[0], 0x1p-149F), 0);
    assert_int_equal(narrow(&formats[0], -0x1p-130F), 0x8000);
    assert_int_equal(narrow(&formats[1], 0x1p-133F), 1);
    assert_int_equal(narrow(&formats[1], 0x1.8p-134F), 1);
    assert_int_equal(narrow(&formats[1], 0x1p-134F), 0);
}

TEST(test_f32_is_copied_bit_by_bit)
{
    const uint32_t bits[] = {0x7f800001U, 0xffc12345U, 0x00000001U, 0x80000000U, 0x3f800000U};
    float values[5];
    uint32_t again[5];
    assert_ok(convert_to_f32(GRAIL_DTYPE_F32, bits, 5, values));
    assert_ok(convert_from_f32(GRAIL_DTYPE_F32, values, 5, again));
    assert_memory_equal(bits, again, sizeof bits);
}

TEST(test_stored_bytes_need_no_alignment)
{
    const grail_dtype dtypes[] = {GRAIL_DTYPE_F32, GRAIL_DTYPE_F16, GRAIL_DTYPE_BF16};
    enum { COUNT = 67 };
    float values[COUNT];
    float again[COUNT];
    unsigned char bytes[4 * COUNT + 2];
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(i - 30);
    }
    for (int k = 0; k < 3; k++) {
        memset(bytes, 0xee, sizeof bytes);
        const size_t size = COUNT * dtype_bits(dtypes[k]) / 8;
        assert_ok(convert_from_f32(dtypes[k], values, COUNT, bytes + 1));
        assert_int_equal(bytes[0], 0xee);
        assert_int_equal(bytes[1 + size], 0xee);
        assert_ok(convert_to_f32(dtypes[k], bytes + 1, COUNT, again));
        assert_memory_equal(values, again, sizeof values);
    }
}

TEST(test_other_dtypes_are_refused)
{
    float value = 0;
    int64_t stored = 0;
    for (int i = 0; i <= GRAIL_DTYPE_COUNT; i++) {
        const grail_dtype dtype = (grail_dtype)i;
        if (!dtype_is_float(dtype)) {
            assert_fails(convert_to_f32(dtype, &stored, 1, &value), GRAIL_ERROR_UNSUPPORTED,
                         grail_dtype_name(dtype)); /* of types of blocks: no complete block */
            assert_fails(convert_from_f32(dtype, &value, 1, &stored), GRAIL_ERROR_UNSUPPORTED,
                         grail_dtype_name(dtype));
        }
    }
}

TEST(test_nothing_is_converted_for_a_count_of_zero)
{
    float value = 7;
    assert_ok(convert_to_f32(GRAIL_DTYPE_F16, NULL, 0, &value));
    assert_ok(convert_from_f32(GRAIL_DTYPE_BF16, NULL, 0, &value));
    assert_int_equal(find_non_finite(NULL, 0), -1);
    assert_true(value == 7);
}

/* Whether an 8-bit pattern is NaN or infinite, by the definition of its format. */
static bool is_special_8(grail_dtype dtype, unsigned pattern)
{
    switch (dtype) {
    case GRAIL_DTYPE_F8_E5M2: /* as IEEE 754: the exponent is all ones */
        return (pattern >> 2 & 0x1fU) == 0x1fU;
    case GRAIL_DTYPE_F8_E4M3: /* exponent and mantissa are all ones */
        return (pattern >> 3 & 0xfU) == 0xfU && (pattern & 7U) == 7U;
    case GRAIL_DTYPE_F8_E8M0:
        return pattern == 255;
    case GRAIL_DTYPE_F8_E4M3FNUZ:
    case GRAIL_DTYPE_F8_E5M2FNUZ: /* what would be the negative zero */
        return pattern == 128;
    default:
        return false;
    }
}

TEST(test_special_values_are_found_as_they_are_stored)
{
    const double doubles[] = {1.0, -1.7976931348623157e308, 4.9e-324, -INFINITY, NAN};
    const float pairs[] = {1, 2, 3, -4, 5, NAN};
    unsigned char bytes[256];
    for (unsigned i = 0; i < PATTERNS; i++) {
        const uint16_t pattern = (uint16_t)i;
        for (int k = 0; k < 2; k++) {
            const bool finite = isfinite(value_of(&formats[k], i)) != 0;
            assert_int_equal(find_non_finite_stored(formats[k].dtype, &pattern, 1),
                             finite ? -1 : 0);
        }
    }
    for (int d = 0; d < GRAIL_DTYPE_COUNT; d++) {
        for (unsigned i = 0; i < 256 && dtype_bits((grail_dtype)d) == 8; i++) {
            bytes[i] = (unsigned char)i;
            assert_int_equal(find_non_finite_stored((grail_dtype)d, &bytes[i], 1),
                             is_special_8((grail_dtype)d, i) ? 0 : -1);
        }
    }
    assert_int_equal(find_non_finite_stored(GRAIL_DTYPE_F64, doubles, 3), -1);
    assert_int_equal(find_non_finite_stored(GRAIL_DTYPE_F64, doubles, 5), 3);
    assert_int_equal(find_non_finite_stored(GRAIL_DTYPE_F64, doubles + 4, 1), 0);
    assert_int_equal(find_non_finite_stored(GRAIL_DTYPE_C64, pairs, 2), -1);
    assert_int_equal(find_non_finite_stored(GRAIL_DTYPE_C64, pairs, 3), 2);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(find_non_finite_stored(GRAIL_DTYPE_I64, bytes, 32), -1);
    assert_int_equal(find_non_finite_stored(GRAIL_DTYPE_F32, bytes + 1, 63), 0);
}

/* Long enough for several pieces and a ragged end. */
enum { LONG_COUNT = 5 * 65536 + 13 };

TEST(test_long_arrays_do_not_depend_on_the_thread_count)
{
    OWNED(float) *values = NULL;
    uint16_t *one = NULL;
    uint16_t *two = NULL;
    assert_ok(memory_new(&values, LONG_COUNT, sizeof *values));
    assert_ok(memory_new(&one, LONG_COUNT, sizeof *one));
    assert_ok(memory_new(&two, LONG_COUNT, sizeof *two));
    support_fill_normal(values, LONG_COUNT, 1);
    const int threads = parallel_threads();
    parallel_set_threads(1);
    assert_ok(convert_from_f32(GRAIL_DTYPE_F16, values, LONG_COUNT, one));
    parallel_set_threads(3);
    assert_ok(convert_from_f32(GRAIL_DTYPE_F16, values, LONG_COUNT, two));
    parallel_set_threads(threads);
    assert_memory_equal(one, two, LONG_COUNT * sizeof *one);
    assert_ok(convert_to_f32(GRAIL_DTYPE_F16, one, LONG_COUNT, values));
    for (int64_t i = 0; i < LONG_COUNT; i++) {
        assert_true(values[i] == (float)value_of(&formats[0], one[i]));
    }
    memory_free(one);
    memory_free(two);
}

TEST(test_the_first_bad_index_of_a_long_array_is_named)
{
    OWNED(float) *values = NULL;
    uint16_t *out = NULL;
    assert_ok(memory_new(&values, LONG_COUNT, sizeof *values));
    assert_ok(memory_new(&out, LONG_COUNT, sizeof *out));
    assert_int_equal(find_non_finite(values, LONG_COUNT), -1);
    values[LONG_COUNT - 1] = -INFINITY;
    assert_int_equal(find_non_finite(values, LONG_COUNT), LONG_COUNT - 1);
    values[200000] = NAN;
    values[70001] = NAN;
    assert_int_equal(find_non_finite(values, LONG_COUNT), 70001);
    assert_ok(convert_from_f32(GRAIL_DTYPE_F16, values, LONG_COUNT, out));
    values[300000] = 1e30F;
    values[131072] = -65520;
    assert_fails(convert_from_f32(GRAIL_DTYPE_F16, values, LONG_COUNT, out), GRAIL_ERROR_NUMERIC,
                 "value -65520 at index 131072 is beyond the range of F16");
    memory_free(out);
}

TEST(test_f64_is_rounded_and_extended)
{
    const double stored[] = {0.1, -3.0, 1e300, 0x1.000001p0, 1e-300};
    const float rounded[] = {0.1F, -3.0F, (float)INFINITY, 1.0F, 0.0F};
    float values[5];
    double back[5];
    assert_ok(convert_to_f32(GRAIL_DTYPE_F64, stored, 5, values));
    assert_memory_equal(values, rounded, sizeof rounded);
    assert_ok(convert_from_f32(GRAIL_DTYPE_F64, values, 5, back));
    for (int i = 0; i < 5; i++) {
        assert_true(back[i] == (double)rounded[i]);
    }
    assert_true(dtype_is_readable(GRAIL_DTYPE_F64));
    assert_false(dtype_is_weight(GRAIL_DTYPE_F64));
}

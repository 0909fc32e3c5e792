/* Numbers and names of tensor types. Source: ggml, include/ggml.h. */
#include "format/gguf/gguf.h"

typedef struct tensor_type {
    const char *name;  /* NULL: the number has no meaning any more */
    grail_dtype dtype; /* GRAIL_DTYPE_COUNT where grail has none */
} tensor_type;

#define OTHER(name)                                                                                \
    {                                                                                              \
        name, GRAIL_DTYPE_COUNT                                                                    \
    }

static const tensor_type types[] = {
    [0] = {"F32", GRAIL_DTYPE_F32},
    [1] = {"F16", GRAIL_DTYPE_F16},
    [2] = {"Q4_0", GRAIL_DTYPE_Q4_0},
    [3] = {"Q4_1", GRAIL_DTYPE_Q4_1},
    [6] = {"Q5_0", GRAIL_DTYPE_Q5_0},
    [7] = {"Q5_1", GRAIL_DTYPE_Q5_1},
    [8] = {"Q8_0", GRAIL_DTYPE_Q8_0},
    [9] = OTHER("Q8_1"),
    [10] = OTHER("Q2_K"),
    [11] = OTHER("Q3_K"),
    [12] = {"Q4_K", GRAIL_DTYPE_Q4_K},
    [13] = {"Q5_K", GRAIL_DTYPE_Q5_K},
    [14] = {"Q6_K", GRAIL_DTYPE_Q6_K},
    [15] = OTHER("Q8_K"),
    [16] = OTHER("IQ2_XXS"),
    [17] = OTHER("IQ2_XS"),
    [18] = OTHER("IQ3_XXS"),
    [19] = OTHER("IQ1_S"),
    [20] = OTHER("IQ4_NL"),
    [21] = OTHER("IQ3_S"),
    [22] = OTHER("IQ2_S"),
    [23] = OTHER("IQ4_XS"),
    [24] = {"I8", GRAIL_DTYPE_I8},
    [25] = {"I16", GRAIL_DTYPE_I16},
    [26] = {"I32", GRAIL_DTYPE_I32},
    [27] = {"I64", GRAIL_DTYPE_I64},
    [28] = {"F64", GRAIL_DTYPE_F64},
    [29] = OTHER("IQ1_M"),
    [30] = {"BF16", GRAIL_DTYPE_BF16},
    [34] = OTHER("TQ1_0"),
    [35] = OTHER("TQ2_0"),
    [39] = OTHER("MXFP4"),
};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const char *gguf_tensor_type_name(uint32_t number)
{
    return number < TYPE_COUNT ? types[number].name : NULL;
}

bool gguf_tensor_dtype(uint32_t number, grail_dtype *out)
{
    if (gguf_tensor_type_name(number) == NULL || types[number].dtype == GRAIL_DTYPE_COUNT) {
        return false;
    }
    *out = types[number].dtype;
    return true;
}

bool gguf_tensor_number(grail_dtype dtype, uint32_t *out)
{
    for (uint32_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].name != NULL && types[i].dtype == dtype) {
            *out = i;
            return true;
        }
    }
    return false;
}

static const gguf_type_facts facts[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {"u8", 1, true, false},         [GGUF_I8] = {"i8", 1, true, true},
    [GGUF_U16] = {"u16", 2, true, false},       [GGUF_I16] = {"i16", 2, true, true},
    [GGUF_U32] = {"u32", 4, true, false},       [GGUF_I32] = {"i32", 4, true, true},
    [GGUF_U64] = {"u64", 8, true, false},       [GGUF_I64] = {"i64", 8, true, true},
    [GGUF_F32] = {"f32", 4, false, true},       [GGUF_F64] = {"f64", 8, false, true},
    [GGUF_BOOL] = {"boolean", 1, false, false}, [GGUF_TEXT] = {"text", 0, false, false},
    [GGUF_ARRAY] = {"array", 0, false, false},
};

const gguf_type_facts *gguf_facts(gguf_type type)
{
    return &facts[type];
}

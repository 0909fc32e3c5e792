/* The forward pass of vision transformers against the libraries that their checkpoints come from.
 * make_vision_golden_vit.py made the references. */
#include "vision_golden.h"

#define GOLDEN_MODELS(X)                                                                           \
    X(vit_of_timm, "timm-vit", "", "head_dim=16")                                                  \
    X(vit_of_timm_in_one_file, "timm-vit", "model.safetensors", "head_dim=16")                     \
    X(vit_of_timm_with_a_norm_before_and_no_query_bias, "timm-vit-hub", "", "")                    \
    X(vit_of_torchvision, "torchvision-vit", "", "head_dim=16")                                    \
    X(vit_of_hugging_face, "hf-vit", "", "")                                                       \
    X(simple_vit, "simple-vit", "", "")                                                            \
    X(simple_vit_in_a_torch_file, "simple-vit-pth", "model.pth", "")                               \
    X(open_clip_tower, "open-clip", "", "head_dim=16")                                             \
    X(open_clip_tower_told_quick_gelu, "open-clip-quickgelu", "",                                  \
      "head_dim=16 activation=quick_gelu")                                                         \
    X(clip_model_of_hugging_face, "hf-clip", "", "")                                               \
    X(clip_vision_model_of_hugging_face, "hf-clip-vision", "", "")                                 \
    X(model_soup_with_features_of_unit_length, "model-soup", "", "head_dim=16")

#define GOLDEN_TEST(symbol, directory, file, settings)                                             \
    TEST(symbol##_gives_the_reference_outputs)                                                     \
    {                                                                                              \
        assert_vision_directory(directory, file, settings);                                        \
    }
GOLDEN_MODELS(GOLDEN_TEST)

#include "pipeline/network/part_input.h"

#include "base/random.h"

#include <string.h>

void part_input_fini(part_input *input)
{
    memory_free(input->ids);
    memory_free(input->pixels);
    *input = (part_input){0};
}

batch_input part_input_batch(const part_input *input)
{
    return (batch_input){.ids = input->ids, .pixels = input->pixels};
}

/* How one image is changed. */
typedef struct augmentation {
    bool mirrored;
    int64_t down, right; /* positions by which it is moved */
} augmentation;

static augmentation draw(const extent *positions, uint64_t seed, int64_t step, int64_t sample)
{
    enum { SHARE = 8 };
    random_state random;
    const int64_t down = positions->height / SHARE;
    const int64_t right = positions->width / SHARE;
    random_seed(&random, seed ^ (uint64_t)step << 32, (uint64_t)sample);
    return (augmentation){.mirrored = random_below(&random, 2) == 1,
                          .down = random_below(&random, 2 * down + 1) - down,
                          .right = random_below(&random, 2 * right + 1) - right};
}

/* The place within 0 .. count - 1 of one that is at most count - 1 outside, reflected at the
 * border. */
static int64_t reflected(int64_t place, int64_t count)
{
    const int64_t inside = place < 0 ? -place : place;
    return inside < count ? inside : 2 * (count - 1) - inside;
}

static void copy_image(const calibration *c, augmentation a, const float *in, float *out)
{
    const extent *positions = &c->positions;
    for (int64_t row = 0; row < positions->height; row++) {
        const float *line =
            in + reflected(row - a.down, positions->height) * positions->width * c->channels;
        for (int64_t column = 0; column < positions->width; column++) {
            const int64_t moved = reflected(column - a.right, positions->width);
            const int64_t from = a.mirrored ? positions->width - 1 - moved : moved;
            memcpy(out, line + from * c->channels, (size_t)c->channels * sizeof out[0]);
            out += c->channels;
        }
    }
}

static grail_status copy_images(const calibration *c, const sample_part *part, uint64_t seed,
                                int64_t step, float **out)
{
    const int64_t size = c->positions.height * c->positions.width * c->channels;
    const grail_status status = memory_new_unset(out, (size_t)(part->count * size), sizeof **out);
    for (int64_t i = 0; status == GRAIL_OK && i < part->count; i++) {
        const int64_t sample = part->samples[i];
        const augmentation a = seed == 0 || c->channels != IMAGE_CHANNELS
                                   ? (augmentation){0}
                                   : draw(&c->positions, seed, step, sample);
        copy_image(c, a, c->pixels + sample * size, *out + i * size);
    }
    return status;
}

static grail_status copy_ids(const calibration *c, const sample_part *part, int32_t **out)
{
    const int64_t length = window_size(&c->windows, part->samples[0]);
    const grail_status status = memory_new_unset(out, (size_t)(part->count * length), sizeof **out);
    for (int64_t i = 0; status == GRAIL_OK && i < part->count; i++) {
        memcpy(*out + i * length, c->windows.ids + window_start(&c->windows, part->samples[i]),
               (size_t)length * sizeof **out);
    }
    return status;
}

grail_status part_input_copy(const calibration *c, const sample_part *part, uint64_t seed,
                             int64_t step, part_input *out)
{
    return c->pixels != NULL ? copy_images(c, part, seed, step, &out->pixels)
                             : copy_ids(c, part, &out->ids);
}

/* What is told of GPUs, with functions of the test in place of the runtime of CUDA: what is
 * missing, and what a text of PyTorch means. */
#include "support/support.h"

#include "backend/torch/device.h"
#include "backend/torch/library.h"

#include <string.h>

static int count_two(int *count)
{
    *count = 2;
    return 0;
}

static int fail_to_count(int *count)
{
    *count = 0;
    return 35;
}

static int current = 1;

static int get_device(int *device)
{
    *device = current;
    return 0;
}

static int set_device(int device)
{
    current = device;
    return 0;
}

static int tell_memory(size_t *free, size_t *total)
{
    *free = 1000 + (size_t)current;
    *total = 2000;
    return 0;
}

static const char *text_of_code(int code)
{
    return code == 35 ? "the driver is too old" : "no text";
}

TEST(gpus_are_counted)
{
    torch = (torch_library){.cudaGetErrorString = text_of_code};
    assert_ok(torch_gpu_check(5)); /* nobody can be asked */
    torch.cudaGetDeviceCount = count_two;
    assert_ok(torch_gpu_check(1));
    assert_fails(torch_gpu_check(2), GRAIL_ERROR_UNSUPPORTED,
                 "there is no 'torch:cuda:2': PyTorch sees 2 GPUs here");
    torch.cudaGetDeviceCount = fail_to_count;
    assert_fails(torch_gpu_check(0), GRAIL_ERROR_UNSUPPORTED,
                 "PyTorch sees no GPU here: the driver is too old");
}

TEST(memory_is_that_of_the_gpu_or_says_what_is_missing)
{
    int64_t free = 0;
    int64_t total = 0;
    const char *missing = NULL;
    torch = (torch_library){.cudaGetDevice = get_device, .cudaSetDevice = set_device};
    torch_gpu_memory(0, &free, &total, &missing);
    assert_string_equal(missing, "cudaMemGetInfo is missing");
    assert_int_equal(free, -1);
    assert_int_equal(total, -1);
    torch.cudaMemGetInfo = tell_memory;
    torch_gpu_memory(0, &free, &total, &missing);
    assert_null(missing);
    assert_int_equal(free, 1000);
    assert_int_equal(total, 2000);
    assert_int_equal(current, 1); /* as it was */
}

TEST(texts_tell_what_a_failure_leaves)
{
    assert_true(torch_text_tells_full("CUDA out of memory. Tried to allocate 20.00 GiB."));
    assert_true(torch_text_tells_full("DefaultCPUAllocator: can't allocate memory: you tried"));
    assert_false(torch_text_tells_full("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"));
    static const char *const losses[] = {
        "CUDA error: device-side assert triggered\nCUDA kernel errors",
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: unspecified launch failure", "CUDA error: misaligned address"};
    for (int i = 0; i < 4; i++) {
        assert_true(torch_text_tells_loss(losses[i]));
        assert_false(torch_text_tells_full(losses[i]));
    }
    assert_false(torch_text_tells_loss("CUDA out of memory. Tried to allocate 20.00 GiB."));
    assert_false(torch_text_tells_loss("CUDA error: too many resources requested for launch"));
}

TEST(the_first_loss_stays)
{
    assert_null(torch_gpu_loss());
    torch_gpu_note_loss("the first one");
    torch_gpu_note_loss("another one");
    assert_string_equal(torch_gpu_loss(), "the first one");
}

int main(void)
{
    return support_run_tests();
}

#include "support/support.h"

int main(void)
{
    return support_run_tests();
}

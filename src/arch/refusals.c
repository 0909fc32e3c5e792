#include "arch/refusals.h"

extern const unsigned char refusals_json[];
extern const unsigned long refusals_json_size;

json_t *refusals_read(void)
{
    return json_loadb((const char *)refusals_json, refusals_json_size, JSON_REJECT_DUPLICATES,
                      NULL);
}

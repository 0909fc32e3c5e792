/* The commands: one file each, listed in main.c. */
#ifndef GRAIL_CLI_COMMANDS_H
#define GRAIL_CLI_COMMANDS_H

#include "options.h"

extern const command command_inspect, command_plan, command_compress, command_heal, command_eval,
    command_verify, command_gram, command_export, command_quantize, command_generate,
    command_doctor, command_logits, command_completion;

/** The summary of "grail help COMMAND", which main.c handles itself. */
#define HELP_SUMMARY "print the help of a command"

extern const option *const inspect_options;
extern const option *const plan_options;
extern const option *const compress_options;
extern const option *const heal_command_options;
extern const option *const eval_options;
extern const option *const gram_options;
extern const option *const verify_options;
extern const option *const generate_options;
extern const option *const export_options;
extern const option *const quantize_options;
extern const option *const doctor_options;
extern const option *const logits_options;
extern const option *const completion_options;

#endif

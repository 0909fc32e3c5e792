/* grail completion: prints shell completion scripts, made from the option tables. */
#include "print.h"
#include "shared_options.h"

#include <grail/compress.h>

#include <string.h>

static const option table[] = {{0}};

static bool has_choices(const option *o)
{
    const char *meaning = NULL;
    return o->words != NULL || option_known_name(o->kind, 0, &meaning) != NULL;
}

static void print_choices(const option *o)
{
    for (int i = 0; o->words != NULL && o->words[i] != NULL; i++) {
        print_out("%s%s", i == 0 ? "" : " ", o->words[i]);
    }
    const char *meaning = NULL;
    const char *name = option_known_name(o->kind, 0, &meaning);
    for (int i = 1; name != NULL; name = option_known_name(o->kind, i++, &meaning)) {
        print_out("%s%s", i == 1 ? "" : " ", name);
    }
}

static void print_bash_command(const command *c)
{
    print_out("    %s)\n        case \"$previous\" in\n", c->name);
    for (const option *o = options_complete(c->options); o->name != NULL; o++) {
        if (has_choices(o)) {
            print_out("        --%s) COMPREPLY=($(compgen -W '", o->name);
            print_choices(o);
            print_out("' -- \"$word\")); return ;;\n");
        } else if (o->kind == OPTION_TEXT) {
            print_out("        --%s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", o->name);
        }
    }
    print_out("        esac\n        options='");
    for (const option *o = options_complete(c->options); o->name != NULL; o++) {
        print_out("--%s ", o->name);
    }
    print_out("--help --help-all'\n        ;;\n");
}

static void print_bash(void)
{
    print_out(
        "# bash completion for grail; made by: grail completion bash\n_grail() {\n"
        "    local word=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" "
        "options=''\n"
        "    if ((COMP_CWORD > 2)) && [[ \" ${COMP_WORDS[*]:2:COMP_CWORD-2} \" == *' -- '* ]]; "
        "then\n"
        "        COMPREPLY=($(compgen -f -- \"$word\"))\n        return\n    fi\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ] || [ \"$COMP_CWORD ${COMP_WORDS[1]}\" = '2 help' ]; "
        "then\n"
        "        COMPREPLY=($(compgen -W '");
    for (int i = 0; command_at(i) != NULL; i++) {
        if (!command_at(i)->hidden) {
            print_out("%s ", command_at(i)->name);
        }
    }
    print_out("help' -- \"$word\"))\n        return\n    fi\n    case \"${COMP_WORDS[1]}\" in\n");
    for (int i = 0; command_at(i) != NULL; i++) {
        if (!command_at(i)->hidden) {
            print_bash_command(command_at(i));
        }
    }
    print_out("    esac\n    case \"$word\" in\n"
              "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
              "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}\n"
              "complete -o filenames -F _grail grail\n");
}

/* Prints text with backslashes before what has a meaning in double quotes, or for _arguments and
 * _describe (colons, brackets). */
static void print_zsh_text(const char *text)
{
    for (; *text != 0; text++) {
        print_out("%s%c", strchr(":[]\"$`\\", *text) == NULL ? "" : "\\", *text);
    }
}

static void print_zsh_command(const command *c)
{
    print_out("    %s)\n        _arguments -S \\\n", c->name);
    for (const option *o = options_complete(c->options); o->name != NULL; o++) {
        print_out("            \"--%s[", o->name);
        print_zsh_text(o->help == NULL ? "" : o->help);
        print_out("]");
        if (has_choices(o)) {
            print_out(":%s:(", o->argument);
            print_choices(o);
            print_out(")");
        } else if (o->kind != OPTION_FLAG) {
            print_out(":%s:%s", o->argument, o->kind == OPTION_TEXT ? "_files" : "");
        }
        print_out("\" \\\n");
    }
    print_out("            '--help[help]' '--help-all[help of all options]' '*:file:_files'\n      "
              "  ;;\n");
}

static void print_zsh(void)
{
    print_out("#compdef grail\n# zsh completion for grail; made by: grail completion zsh\n"
              "if (( CURRENT == 2 )) || [[ $CURRENT == 3 && ${words[2]} == help ]]; then\n"
              "    local -a commands=(\n");
    for (int i = 0; command_at(i) != NULL; i++) {
        if (!command_at(i)->hidden) {
            print_out("        \"%s:", command_at(i)->name);
            print_zsh_text(command_at(i)->summary);
            print_out("\"\n");
        }
    }
    print_out("        \"help:" HELP_SUMMARY "\"\n");
    print_out("    )\n    _describe command commands\nelse\n    local chosen=\"${words[2]}\"\n"
              "    shift words\n    (( CURRENT-- ))\n    case \"$chosen\" in\n");
    for (int i = 0; command_at(i) != NULL; i++) {
        if (!command_at(i)->hidden) {
            print_zsh_command(command_at(i));
        }
    }
    print_out("    esac\nfi\n");
}

static int run(const char *const arguments[])
{
    const char *shell = arguments[0];
    const int code = options_check_word("SHELL", WORDS("bash", "zsh"), shell);
    if (code == EXIT_OK && strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (code == EXIT_OK) {
        print_zsh();
    }
    return code;
}

const command command_completion = {
    .name = "completion",
    .arguments = "SHELL",
    .argument_count = 1,
    .summary = "print the completion script for bash or zsh",
    .examples = WORDS("source <(grail completion bash)"),
    .options = table,
    .run = run,
};

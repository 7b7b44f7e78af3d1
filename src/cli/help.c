/* Help texts: see help.h. */
#include "cli/help.h"

#include "cli/commands.h"

#include <string.h>

enum { WIDTH = 80, OPTION_COLUMN = 30 };

void lzt_help_wrap(const char *text, int indent, int column, FILE *out)
{
    bool at_start = true;
    for (const char *p = text; *p;) {
        int length = (int)strcspn(p, " \n");
        if (!at_start && column + 1 + length > WIDTH) {
            fputc('\n', out);
            column = 0;
            at_start = true;
        }
        if (length) {
            if (column < indent) column += fprintf(out, "%*s", indent - column, "");
            column += fprintf(out, "%s%.*s", at_start ? "" : " ", length, p);
            at_start = false;
        }
        p += length;
        if (*p == '\n') {
            fputc('\n', out);
            column = 0;
            at_start = true;
        }
        if (*p) p++;
    }
    fputc('\n', out);
}

void lzt_help_option_text(const lzt_option *option, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s", option->help);
    const char *separator = " (";
#define ADD(...)                                                                                                       \
    do {                                                                                                               \
        if (used < size) used += (size_t)snprintf(text + used, size - used, "%s", separator);                          \
        if (used < size) used += (size_t)snprintf(text + used, size - used, __VA_ARGS__);                              \
        separator = ", ";                                                                                              \
    } while (0)
    if (option->choices) ADD("%s", option->choices);
    if (option->unit) ADD("%s", option->unit);
    if (option->fallback) ADD("default %s", option->fallback);
    if (option->required && !lzt_option_is_operand(option)) ADD("required");
    if (option->repeated) ADD("may be repeated");
#undef ADD
    if (separator[0] == ',' && used < size) snprintf(text + used, size - used, ")");
}

void lzt_help_usage(const lzt_command *command, FILE *out)
{
    bool more = false;
    fprintf(out, "lazytrain %s", command->name);
    for (int i = 0; i < command->option_count; i++) {
        const lzt_option *o = &command->option[i];
        if (lzt_option_is_operand(o) || o->hidden) continue;
        if (o->required)
            fprintf(out, " --%s %s", o->name, o->argument);
        else
            more = true;
    }
    for (int i = 0; i < command->option_count; i++) {
        const lzt_option *o = &command->option[i];
        if (!lzt_option_is_operand(o)) continue;
        fprintf(out, o->required ? " %s%s" : " [%s%s]", o->name, o->repeated ? "..." : "");
    }
    if (more) fprintf(out, " [OPTION...]");
    if (command->overrides) fprintf(out, " [--KEY VALUE...]");
}

static void print_option(const lzt_option *option, FILE *out)
{
    char text[1024];
    int column;
    if (lzt_option_is_operand(option))
        column = fprintf(out, "  %s", option->name);
    else if (option->type == LZT_OPTION_FLAG)
        column = fprintf(out, "  --%s", option->name);
    else
        column = fprintf(out, "  --%s %s", option->name, option->argument);
    if (column + 2 > OPTION_COLUMN) {
        fputc('\n', out);
        column = 0;
    }
    lzt_help_option_text(option, text, sizeof text);
    lzt_help_wrap(text, OPTION_COLUMN, column, out);
}

static void print_examples(const char *example, FILE *out)
{
    for (const char *p = example; *p;) {
        int length = (int)strcspn(p, "\n");
        fprintf(out, "  %.*s\n", length, p);
        p += length;
        if (*p) p++;
    }
}

void lzt_help_command(const lzt_command *command, FILE *out)
{
    fprintf(out, "Example:\n");
    print_examples(command->example, out);
    fprintf(out, "\n");
    fprintf(out, "lazytrain %s: %s\n\nUsage: ", command->name, command->summary);
    lzt_help_usage(command, out);
    fprintf(out, "\n");
    if (command->details) {
        fprintf(out, "\n");
        lzt_help_wrap(command->details, 0, 0, out);
    }
    fprintf(out, "\nOptions:\n");
    for (int i = 0; i < command->option_count; i++)
        if (!command->option[i].hidden) print_option(&command->option[i], out);
    print_option(&(lzt_option){.name = "help", .help = "print this text"}, out);
}

void lzt_help_program(FILE *out)
{
    fprintf(out, "Example:\n"
                 "  lazytrain train config.yaml\n\n"
                 "lazytrain fine-tunes language models larger than the GPU's memory.\n\n"
                 "Usage: lazytrain SUBCOMMAND [OPTION...]\n\nSubcommands:\n");
    for (int i = 0; i < lzt_command_count(); i++) {
        const lzt_command *command = lzt_command_at(i);
        if (command->hidden) continue;
        int column = fprintf(out, "  %s", command->name);
        lzt_help_wrap(command->summary, 20, column, out);
    }
    fprintf(out, "\nlazytrain SUBCOMMAND --help explains one; lazytrain --version names the version.\n\n"
                 "Exit codes: 0 done; 1 internal; 2 usage or config; 3 no feasible plan; 4 data;\n"
                 "5 model or checkpoint invalid; 6 storage; 7 numerics stop; 75 interrupted and\n"
                 "saved, run again.\n");
}

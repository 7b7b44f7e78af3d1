/* The command line parser: see options.h. It knows tables and words, no command. */
#include "cli/options.h"

#include "config/nearest.h"
#include "config/scalar.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct value {
    union {
        uint64_t u;
        int64_t i;
        double r;
        bool b;
    };
} value;

typedef struct item {
    const lzt_option *option;
    const char *text; /* NULL for a flag */
} item;

struct lzt_args {
    const lzt_command *command;
    item *items; /* in the order written */
    int item_count, operand_count;
    lzt_config_override *overrides;
    int override_count;
    char *copies; /* keys of "--key=value", cut from their values */
    size_t copied;
};

bool lzt_option_is_operand(const lzt_option *option)
{
    for (const char *p = option->name; *p; p++)
        if (islower((unsigned char)*p)) return false;
    return true;
}

/* name[0..length-1] spells the option's name, '_' and '-' being one. */
static bool spells(const char *name, size_t length, const char *option_name)
{
    for (size_t i = 0; i < length; i++)
        if ((name[i] == '_' ? '-' : name[i]) != option_name[i]) return false;
    return option_name[length] == 0;
}

static const lzt_option *find_option(const lzt_command *command, const char *name, size_t length)
{
    for (int i = 0; i < command->option_count; i++)
        if (!lzt_option_is_operand(&command->option[i]) && spells(name, length, command->option[i].name))
            return &command->option[i];
    return NULL;
}

static const lzt_option *find_operand(const lzt_command *command, int index)
{
    const lzt_option *last = NULL;
    for (int i = 0; i < command->option_count; i++) {
        if (!lzt_option_is_operand(&command->option[i])) continue;
        last = &command->option[i];
        if (index-- == 0) return last;
    }
    return last && last->repeated ? last : NULL;
}

static bool read_value(const lzt_option *option, const char *text, value *out, const char **why)
{
    switch (option->type) {
    case LZT_OPTION_UINT: return lzt__scalar_uint(text, &out->u, why);
    case LZT_OPTION_INT: return lzt__scalar_int(text, &out->i, why);
    case LZT_OPTION_REAL: return lzt__scalar_real(text, &out->r, why);
    case LZT_OPTION_SIZE: return lzt__scalar_size(text, &out->u, why);
    case LZT_OPTION_BOOL: return lzt__scalar_bool(text, &out->b, why);
    case LZT_OPTION_CHOICE: return lzt__scalar_choice(text, option->choices, why);
    case LZT_OPTION_PATH:
    case LZT_OPTION_TEXT:
    case LZT_OPTION_FLAG: return true;
    }
    return true;
}

static const char *dashes(const lzt_option *option)
{
    return lzt_option_is_operand(option) ? "" : "--";
}

/* Keeps one option or operand after its value has been read once, so that the getters cannot fail. */
static lzt_status keep(lzt_args *args, const lzt_option *option, const char *text, lzt_error *err)
{
    char where[160];
    snprintf(where, sizeof where, "%s%.120s", dashes(option), option->name);
    for (int i = 0; i < args->item_count && !option->repeated; i++)
        if (args->items[i].option == option) return lzt_fail(err, LZT_ERR_USAGE, where, "given twice");
    value ignored;
    const char *why = "";
    if (text && !read_value(option, text, &ignored, &why)) {
        lzt_fail(err, LZT_ERR_USAGE, where, "'%s' %s", text, why);
        return option->choices ? lzt_hint(err, "the choices are %s", option->choices) : LZT_ERR_USAGE;
    }
    args->items[args->item_count++] = (item){option, text};
    return LZT_OK;
}

static lzt_status unknown_option(const lzt_command *command, const char *word, lzt_error *err)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    lzt_nearest nearest = {.wanted = name};
    for (int i = 0; i < command->option_count; i++)
        if (!lzt_option_is_operand(&command->option[i]) && !command->option[i].hidden)
            lzt__nearest_offer(&nearest, command->option[i].name);
    lzt__nearest_offer(&nearest, "help");
    lzt_fail(err, LZT_ERR_USAGE, command->name, "unknown option --%s", name);
    const char *best = lzt__nearest_name(&nearest);
    if (best) return lzt_hint(err, "did you mean --%s?", best);
    return lzt_hint(err, "see lazytrain %s --help", command->name);
}

/* "--key=value" or "key=value": keeps a copy of the key. */
static void push_override(lzt_args *args, const char *key, size_t key_length, const char *text)
{
    char *copy = args->copies + args->copied;
    memcpy(copy, key, key_length);
    copy[key_length] = 0;
    args->copied += key_length + 1;
    args->overrides[args->override_count++] = (lzt_config_override){copy, text};
}

static bool is_option_word(const char *word)
{
    return word[0] == '-' && word[1] == '-' && word[2];
}

/* One "--name" word at argument[*index]; moves *index over a value of its own. */
static lzt_status take_option(lzt_args *args, int count, char *const *argument, int *index, lzt_error *err)
{
    const char *word = argument[*index], *name = word + 2;
    size_t length = strcspn(name, "=");
    const char *text = name[length] ? name + length + 1 : NULL;
    const lzt_option *option = find_option(args->command, name, length);
    if (!option && !args->command->overrides) return unknown_option(args->command, word, err);
    bool wants_value = !option || option->type != LZT_OPTION_FLAG;
    if (!wants_value && text) return lzt_fail(err, LZT_ERR_USAGE, word, "takes no value");
    if (wants_value && !text && *index + 1 < count && !is_option_word(argument[*index + 1])) text = argument[++*index];
    if (!option) {
        push_override(args, name, length, text);
        return LZT_OK;
    }
    if (wants_value && !text) {
        lzt_fail(err, LZT_ERR_USAGE, word, "needs a value");
        return lzt_hint(err, "write --%s %s", option->name, option->argument ? option->argument : "VALUE");
    }
    return keep(args, option, text, err);
}

static bool is_assignment(const char *word)
{
    size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return length && word[length] == '=' && word[0] != '-' && word[0] != '.';
}

static lzt_status take_operand(lzt_args *args, const char *word, lzt_error *err)
{
    if (args->command->overrides && is_assignment(word)) {
        size_t length = strcspn(word, "=");
        push_override(args, word, length, word + length + 1);
        return LZT_OK;
    }
    const lzt_option *option = find_operand(args->command, args->operand_count);
    if (!option) {
        lzt_fail(err, LZT_ERR_USAGE, args->command->name, "unexpected argument '%s'", word);
        return lzt_hint(err, "see lazytrain %s --help", args->command->name);
    }
    args->operand_count++;
    return keep(args, option, word, err);
}

static lzt_status check_required(const lzt_args *args, lzt_error *err)
{
    for (int i = 0; i < args->command->option_count; i++) {
        const lzt_option *option = &args->command->option[i];
        if (!option->required || lzt_args_given(args, option->name)) continue;
        lzt_fail(err, LZT_ERR_USAGE, args->command->name, "%s%s is missing", dashes(option), option->name);
        return lzt_hint(err, "for example: %.*s", (int)strcspn(args->command->example, "\n"), args->command->example);
    }
    return LZT_OK;
}

static lzt_status take_words(lzt_args *args, int count, char *const *argument, lzt_error *err)
{
    bool options_ended = false;
    for (int i = 0; i < count; i++) {
        const char *word = argument[i];
        lzt_status status;
        if (!options_ended && !strcmp(word, "--")) {
            options_ended = true;
            continue;
        }
        if (!options_ended && is_option_word(word))
            status = take_option(args, count, argument, &i, err);
        else if (!options_ended && word[0] == '-' && word[1] && !isdigit((unsigned char)word[1]))
            status = lzt_fail(err, LZT_ERR_USAGE, word, "short options do not exist; see lazytrain %s --help",
                              args->command->name);
        else
            status = take_operand(args, word, err);
        if (status) return status;
    }
    return check_required(args, err);
}

lzt_status lzt_args_parse(const lzt_command *command, int count, char *const *argument, lzt_args **out, lzt_error *err)
{
    size_t bytes = 1;
    for (int i = 0; i < count; i++) bytes += strlen(argument[i]) + 1;
    lzt_args *args = calloc(1, sizeof *args);
    if (!args) return lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the command line");
    args->command = command;
    args->items = calloc((size_t)count + 1, sizeof *args->items);
    args->overrides = calloc((size_t)count + 1, sizeof *args->overrides);
    args->copies = malloc(bytes);
    lzt_status status = args->items && args->overrides && args->copies
                            ? take_words(args, count, argument, err)
                            : lzt_fail(err, LZT_ERR_NO_MEMORY, NULL, "no memory for the command line");
    if (status) {
        lzt_args_free(args);
        return status;
    }
    *out = args;
    return LZT_OK;
}

void lzt_args_free(lzt_args *args)
{
    if (!args) return;
    free(args->items);
    free(args->overrides);
    free(args->copies);
    free(args);
}

static const lzt_option *in_table(const lzt_args *args, const char *name)
{
    for (int i = 0; i < args->command->option_count; i++)
        if (!strcmp(args->command->option[i].name, name)) return &args->command->option[i];
    assert(!"the option is not in the command's table");
    return NULL;
}

static const item *find_item(const lzt_args *args, const lzt_option *option, int index)
{
    for (int i = 0; i < args->item_count; i++)
        if (args->items[i].option == option && index-- == 0) return &args->items[i];
    return NULL;
}

bool lzt_args_given(const lzt_args *args, const char *name)
{
    return find_item(args, in_table(args, name), 0) != NULL;
}

bool lzt_args_flag(const lzt_args *args, const char *name)
{
    assert(in_table(args, name)->type == LZT_OPTION_FLAG);
    return lzt_args_given(args, name);
}

const char *lzt_args_text(const lzt_args *args, const char *name)
{
    const lzt_option *option = in_table(args, name);
    const item *found = find_item(args, option, 0);
    return found ? found->text : option->fallback;
}

static value typed(const lzt_args *args, const char *name, lzt_option_type type)
{
    const lzt_option *option = in_table(args, name);
    assert(option->type == type);
    const char *text = lzt_args_text(args, name), *why = NULL;
    value v = {{0}};
    bool ok = text && read_value(option, text, &v, &why);
    assert(ok && "an option without a value or default was asked for");
    (void)ok;
    return v;
}

uint64_t lzt_args_uint(const lzt_args *args, const char *name)
{
    return typed(args, name, LZT_OPTION_UINT).u;
}

int64_t lzt_args_int(const lzt_args *args, const char *name)
{
    return typed(args, name, LZT_OPTION_INT).i;
}

double lzt_args_real(const lzt_args *args, const char *name)
{
    return typed(args, name, LZT_OPTION_REAL).r;
}

uint64_t lzt_args_size(const lzt_args *args, const char *name)
{
    return typed(args, name, LZT_OPTION_SIZE).u;
}

bool lzt_args_bool(const lzt_args *args, const char *name)
{
    return typed(args, name, LZT_OPTION_BOOL).b;
}

int lzt_args_count(const lzt_args *args, const char *name)
{
    const lzt_option *option = in_table(args, name);
    int count = 0;
    while (find_item(args, option, count)) count++;
    return count;
}

const char *lzt_args_text_at(const lzt_args *args, const char *name, int index)
{
    const item *found = find_item(args, in_table(args, name), index);
    assert(found);
    return found->text;
}

const lzt_config_override *lzt_args_overrides(const lzt_args *args, int *count)
{
    *count = args->override_count;
    return args->overrides;
}

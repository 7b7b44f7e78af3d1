/* Built-in chat templates, made for training: what is trained stands in {% generation %}, the newline behind a turn
 * does not, and no turn changes with what follows it. */
#include "data/template/chat_builtin.h"

#include <string.h>

#define TURNS(trained)                                                                                                 \
    "{%- for message in messages %}\n"                                                                                 \
    "{{- '<|im_start|>' + message.role + '\\n' }}\n"                                                                   \
    "{%- if message.role == 'assistant' %}{% generation %}" trained "{{ '<|im_end|>' }}{% endgeneration %}\n"          \
    "{%- else %}{{ message.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}\n"                                          \
    "{%- endfor %}\n"                                                                                                  \
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\n"

static const struct {
    const char *name, *source;
} builtin[] = {
    {"alpaca",
     "{%- set ns = namespace(system='Below is an instruction that describes a task. Write a response that "
     "appropriately "
     "completes the request.') %}\n"
     "{%- for message in messages %}\n"
     "{%- if message.role == 'system' %}{% set ns.system = message.content %}\n"
     "{%- elif message.role == 'assistant' %}{{ '\\n\\n### Response:\\n' }}{% generation %}{{ message.content }}"
     "{{ eos_token }}{% endgeneration %}\n"
     "{%- else %}{{ (ns.system + '\\n\\n' if loop.first or messages[loop.index0 - 1].role == 'system' else '\\n\\n') + "
     "'### Instruction:\\n' + message.content }}{% endif %}\n"
     "{%- endfor %}\n"
     "{%- if add_generation_prompt %}{{ '\\n\\n### Response:\\n' }}{% endif %}\n"},
    {"chatml", TURNS("{{ message.content }}")},
    {"qwen2.5",
     "{%- if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a "
     "helpful assistant.<|im_end|>\\n' }}{% endif %}\n" TURNS("{{ message.content }}")},
    {"qwen3",
     TURNS("{% set reasoning = message.reasoning_content if message.reasoning_content is string else '' %}"
           "{% set content = message.content %}"
           "{% if not reasoning and '</think>' in content %}"
           "{% set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
           "{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
           "{{ '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}")},
    {"llama3",
     "{{- bos_token }}\n"
     "{%- for message in messages %}\n"
     "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}\n"
     "{%- if message.role == 'assistant' %}{% generation %}{{ message.content | trim }}{{ '<|eot_id|>' }}"
     "{% endgeneration %}\n"
     "{%- else %}{{ message.content | trim + '<|eot_id|>' }}{% endif %}\n"
     "{%- endfor %}\n"
     "{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}\n"},
    {"raw",
     "{{- bos_token }}\n"
     "{%- for message in messages %}\n"
     "{%- if message.role == 'assistant' %}{% generation %}{{ message.content }}{{ eos_token }}{% endgeneration %}\n"
     "{%- else %}{{ message.content }}{% endif %}\n"
     "{%- endfor %}\n"}};

#define COUNT (sizeof builtin / sizeof builtin[0])

const char *lzt_template_builtin(uint32_t index)
{
    return index < COUNT ? builtin[index].name : NULL;
}

const char *lzt__chat_builtin_source(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (!strcmp(builtin[i].name, name)) return builtin[i].source;
    return NULL;
}

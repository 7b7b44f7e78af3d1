/* The config's schema: the table and its look-up. See schema.h. */
#include "config/schema.h"

#include "config/nearest.h"

#include <assert.h>
#include <string.h>

#define AT(field)        .offset = offsetof(lzt_config, field)
#define AT_LEAST(x)      .limits = LZT_LIMIT_MIN, .min = (x)
#define ABOVE(x)         .limits = LZT_LIMIT_MIN_OPEN, .min = (x)
#define WITHIN(a, b)     .limits = LZT_LIMIT_MIN | LZT_LIMIT_MAX, .min = (a), .max = (b)
#define FROM_BELOW(a, b) .limits = LZT_LIMIT_MIN | LZT_LIMIT_MAX_OPEN, .min = (a), .max = (b)
#define TEXT(field)      .type = LZT_KEY_TEXT, AT(field)
#define BOOL(field)      .type = LZT_KEY_BOOL, AT(field)
#define UINT(field)      .type = LZT_KEY_UINT, AT(field)
#define REAL(field)      .type = LZT_KEY_REAL, AT(field)
#define SIZE(field)      .type = LZT_KEY_SIZE, AT(field)
#define STEPS(field)     .type = LZT_KEY_STEPS, AT(field)
#define CHOICE(field)    .type = LZT_KEY_CHOICE, AT(field)
#define LIST(field)      .type = LZT_KEY_LIST, AT(field)
#define NO_EFFECT        .type = LZT_KEY_NONE
#define PLANNED_ONLY(x)  .not_yet = (x), .plannable = true

/* clang-format off */
static const lzt_key table[] = {
    /* model */
    {"model_name_or_path", "base_model model model.name model.path checkpointer.checkpoint_dir",
     TEXT(model_name_or_path),
     .help = "Directory of the model: config.json and safetensors."},
    {"tokenizer", "tokenizer.path tokenizer_name_or_path", TEXT(tokenizer),
     .help = "Directory or file of the tokenizer; unset: the model's directory."},
    {"output_dir", NULL, TEXT(output_dir),
     .help = "Directory of the run: metrics, plan, checkpoints, the final model."},
    {"device", NULL, TEXT(device), .choices = "cpu|cpu-checked|cuda|cuda:*", .fallback = "cpu", .not_yet = "cuda*",
     .help = "Where the model computes. cpu-checked also proves every memory access ordered and declared."},
    {"bf16", "dtype model.dtype torch_dtype", BOOL(bf16), .fallback = "false",
     .value_alias = "auto=true bfloat16=true bf16=true float32=false fp32=false f32=false",
     .help = "true: bf16 weights and compute with an FP32 master; false: f32 throughout."},
    {"fp16", NULL, BOOL(fp16), .fallback = "false", .not_yet = "true", .help = "float16 training."},

    /* data */
    {"dataset", "dataset.path dataset.name dataset_name train_dataset train_file", TEXT(dataset),
     .help = "Files of training rows, or names in dataset_info.json, separated by commas."},
    {"eval_dataset", "dataset.eval_path eval_file validation_file", TEXT(eval_dataset),
     .help = "The same for evaluation: at step 0, every eval_steps, at epoch ends and after the last step."},
    {"dataset_dir", "dataset.dataset_dir", TEXT(dataset_dir),
     .help = "Directory of dataset_info.json; unset: data, where dataset names no file."},
    {"mix_strategy", "dataset.mix_strategy", CHOICE(mix_strategy), .choices = "concat|interleave_under|interleave_over",
     .fallback = "concat",
     .help = "Of several datasets, an epoch has every row once; or as many of each as interleave_probs say, until the "
         "first runs out (under) or until all have been seen (over)."},
    {"interleave_probs", "dataset.interleave_probs", LIST(interleave_probs),
     .help = "Weights of the datasets in an epoch; unset: equal."},
    {"max_seq_length", "max_length cutoff_len sequence_len max_seq_len tokenizer.max_seq_len dataset.max_seq_len",
     UINT(max_seq_length), .unit = "tokens", AT_LEAST(1), .help = "Longer rows are truncated; unset: nothing is."},
    {"truncation", "dataset.truncation", CHOICE(truncation), .choices = "keep_start|keep_answer|drop|error",
     .fallback = "keep_start", .help = "What happens to a row longer than max_seq_length."},
    {"packing", "sample_packing neat_packing dataset.packed dataset.packing", BOOL(packing), .fallback = "false",
     .help = "Several rows share a sequence, isolated from one another."},
    {"group_by_length", "length_grouped dataset.group_by_length", BOOL(group_by_length), .fallback = "false",
     .help = "Rows of similar length share a batch, so that less is padded; the alternative to packing."},
    {"tokenized_path", "dataset_prepared_path dataset.tokenized_path", TEXT(tokenized_path), .fallback = "auto",
     .value_alias = "true=auto false=none no=none off=none",
     .help = "Directory where rows are kept once a tokenizer has made them; auto: lazytrain/rows in the user's cache; "
         "none: not kept."},
    {"template", "chat_template dataset.template", TEXT(chat_template),
     .help = "Chat template: a built-in name, or the model's own."},
    {"query_field", "dataset.query_field", TEXT(query_field),
     .help = "Field of a pair's question; with response_field. Unset: detected."},
    {"response_field", "dataset.response_field", TEXT(response_field),
     .help = "Field of a pair's answer; with query_field."},
    {"max_samples", "dataset.max_samples", UINT(max_samples), .unit = "rows", AT_LEAST(1),
     .help = "Rows of each dataset that are used, from the start; unset: all."},
    {"val_size", "val_set_size", REAL(val_size), .fallback = "0", AT_LEAST(0),
     .help = "Share (below 1) or number of rows of dataset split off for evaluation, chosen by seed. Not beside "
         "eval_dataset."},
    {"on_bad_row", "dataset.on_bad_row", CHOICE(on_bad_row), .choices = "error|skip", .fallback = "error",
     .help = "A row that cannot be read ends the run, or is left out and counted."},
    {"refuse_rows", "dataset.refuse_rows", LIST(refuse_rows), .choices = "untrained|truncated|double_bos",
     .help = "Rows that end the run, naming their line, instead of being counted: without a loss-bearing token, longer "
         "than max_seq_length, or beginning with two BOS."},
    {"loss_on", "dataset.loss_on", CHOICE(loss_on), .choices = "assistant|last|all", .fallback = "assistant",
     .help = "Which tokens bear loss: every assistant turn, the last one, or all tokens. A message's weight, 0 or 1e-9 to "
             "1e9, says how much: the loss is sum(w nll) / sum(w)."},
    {"train_on_prompt", "train_on_inputs dataset.train_on_prompt", BOOL(train_on_prompt), .fallback = "false",
     .help = "true: loss_on all."},
    {"mask_history", "dataset.mask_history", BOOL(mask_history), .fallback = "false", .help = "true: loss_on last."},
    {"disable_shuffling", "dataset.disable_shuffling", BOOL(disable_shuffling), .fallback = "false",
     .help = "Rows in file order in every epoch."},
    {"dataloader_drop_last", "drop_last", BOOL(dataloader_drop_last), .fallback = "false",
     .help = "An epoch's incomplete last batch is left out; else it trains on fewer rows."},
    {"eval_loss_samples", "max_eval_samples", UINT(eval_loss_samples), .unit = "rows", AT_LEAST(1),
     .help = "Rows of eval_dataset, from the start, whose loss is evaluated; unset: all."},
    {"eval_samples", NULL, UINT(eval_samples), .unit = "rows", AT_LEAST(1),
     .help = "Rows of eval_dataset, from the start, whose answers are generated and matched at each evaluation; unset: "
         "none."},
    {"eval_max_new_tokens", NULL, UINT(eval_max_new_tokens), .unit = "tokens", .fallback = "256", AT_LEAST(1),
     .help = "Longest generated answer."},
    {"answer_pattern", NULL, TEXT(answer_pattern),
     .help = "Pattern of the answer in generated and reference text, in Perl's syntax; its group 1, or the whole match, "
         "and the last match counts. Unset: what follows #### or The answer is:"},

    /* training */
    {"per_device_train_batch_size", "micro_batch_size batch_size train_micro_batch_size_per_gpu",
     UINT(per_device_train_batch_size),
     .unit = "rows", .fallback = "8", AT_LEAST(1), .help = "Rows of a micro-batch."},
    {"per_device_eval_batch_size", "eval_batch_size", UINT(per_device_eval_batch_size), .unit = "rows",
     .fallback = "8", AT_LEAST(1),
     .help = "Rows evaluated at once."},
    {"gradient_accumulation_steps", NULL, UINT(gradient_accumulation_steps), .fallback = "1", AT_LEAST(1),
     .help = "Micro-batches of a step."},
    {"num_train_epochs", "num_epochs epochs", REAL(num_train_epochs), .unit = "epochs", .fallback = "3.0", ABOVE(0),
     .help = "Length of the run, unless max_steps is given. Fractions are allowed."},
    {"max_steps", "num_steps", .type = LZT_KEY_INT, AT(max_steps), .unit = "steps", .fallback = "-1", AT_LEAST(-1),
     .help = "Length of the run; -1: from num_train_epochs; 0: no step is taken."},
    {"learning_rate", "lr optimizer.lr", REAL(learning_rate), .fallback = "5e-5", AT_LEAST(0),
     .help = "Peak learning rate."},
    {"lr_scheduler_type", "lr_scheduler lr_scheduler._component_", CHOICE(lr_scheduler_type),
     .choices = "linear|cosine|cosine_with_min_lr|cosine_with_restarts|polynomial|constant|constant_with_warmup|"
         "inverse_sqrt|warmup_stable_decay",
     .value_alias = "wsd=warmup_stable_decay", .fallback = "linear",
     .help = "Shape of the learning rate over the steps, after warm-up."},
    {"lr_scheduler_kwargs.min_lr", NULL, REAL(lr_min), .fallback = "0", AT_LEAST(0),
     .help = "Lowest rate of cosine_with_min_lr."},
    {"lr_scheduler_kwargs.min_lr_rate", "cosine_min_lr_ratio lr_scheduler_kwargs.min_lr_ratio", REAL(lr_min_rate),
     .fallback = "0", WITHIN(0, 1),
     .help = "The same as a share of learning_rate."},
    {"lr_scheduler_kwargs.num_cycles", NULL, REAL(lr_num_cycles), ABOVE(0),
     .help = "Waves of the cosine schedules; unset: 0.5, restarts 1."},
    {"lr_scheduler_kwargs.power", NULL, REAL(lr_power), .fallback = "1", ABOVE(0), .help = "Exponent of polynomial."},
    {"lr_scheduler_kwargs.lr_end", NULL, REAL(lr_end), .fallback = "1e-7", AT_LEAST(0),
     .help = "Last rate of polynomial."},
    {"lr_scheduler_kwargs.num_stable_steps", NULL, UINT(lr_num_stable_steps), .unit = "steps", AT_LEAST(1),
     .help = "Plateau of warmup_stable_decay."},
    {"lr_scheduler_kwargs.num_decay_steps", NULL, UINT(lr_num_decay_steps), .unit = "steps", AT_LEAST(1),
     .help = "Decay of warmup_stable_decay."},
    {"lr_scheduler_kwargs.timescale", NULL, UINT(lr_timescale), .unit = "steps", AT_LEAST(1),
     .help = "Time scale of inverse_sqrt; unset: the warm-up."},
    {"warmup_steps", "num_warmup_steps lr_scheduler.num_warmup_steps", STEPS(warmup_steps), .fallback = "0",
     .help = "Linear warm-up."},
    {"warmup_ratio", NULL, REAL(warmup_ratio), FROM_BELOW(0, 1),
     .help = "The same as a share of the run. Not beside warmup_steps."},
    {"weight_decay", NULL, REAL(weight_decay), .fallback = "0", AT_LEAST(0),
     .help = "Decoupled decay, on tensors of two or more dimensions."},
    {"adam_beta1", "optimizer.beta1 beta1", REAL(adam_beta1), .fallback = "0.9", FROM_BELOW(0, 1),
     .help = "Decay of the first moment."},
    {"adam_beta2", "optimizer.beta2 beta2", REAL(adam_beta2), .fallback = "0.999", FROM_BELOW(0, 1),
     .help = "Decay of the second moment."},
    {"adam_epsilon", "optimizer.eps optimizer.epsilon", REAL(adam_epsilon), .fallback = "1e-8", ABOVE(0),
     .help = "Added to the root of the second moment."},
    {"max_grad_norm", "clip_grad_norm gradient_clipping", REAL(max_grad_norm), .fallback = "1.0", .null_value = "0",
     AT_LEAST(0),
     .help = "Global gradient norm above which gradients are scaled down; 0 or null: off."},
    {"optim", "optimizer optimizer.type optimizer._component_", TEXT(optim), .choices = "adamw", .fallback = "adamw",
     .value_alias = "adamw_torch=adamw adamw_torch_fused=adamw adamw_hf=adamw adamw_anyprecision=adamw "
         "deepspeed_adam=adamw torch.optim.AdamW=adamw",
     .help = "The optimizer. Its state is chosen by optimizer.master and optimizer.moments."},
    {"seed", "random_seed", UINT(seed), .fallback = "42", AT_LEAST(0), .help = "Of everything random."},
    {"data_seed", NULL, UINT(data_seed), AT_LEAST(0), .help = "Of the order of rows; unset: seed."},
    {"max_nonfinite_steps", NULL, UINT(max_nonfinite_steps), .unit = "steps", .fallback = "10", AT_LEAST(1),
     .help = "Steps in a row with a loss or gradient that is not finite (each skipped and counted) before the run "
         "ends with exit code 7."},
    {"freeze", NULL, LIST(freeze), .help = "Globs of tensor names that are not trained: no update, no part in the norm. Their gradients and "
             "moments keep their memory and their way down; plans and predictions count it so."},

    /* logging, evaluation, checkpoints */
    {"logging_steps", "log_every_n_steps log_interval logging.log_interval", STEPS(logging_steps), .fallback = "10",
     .help = "Between printed lines; 0: none. metrics.jsonl has every step."},
    {"eval_strategy", "evaluation_strategy", CHOICE(eval_strategy), .choices = "auto|no|steps|epoch",
     .fallback = "auto",
     .help = "auto, steps: as eval_steps says; epoch: as if eval_steps were 0; no: eval_dataset is not used."},
    {"eval_steps", NULL, STEPS(eval_steps), .fallback = "0",
     .help = "Between evaluations; 0: only at step 0, epoch ends and the end."},
    {"eval_on_start", NULL, BOOL(eval_on_start), .fallback = "true", .help = "Evaluate at step 0."},
    {"save_strategy", NULL, CHOICE(save_strategy), .choices = "auto|no|steps|epoch", .fallback = "auto",
     .not_yet = "epoch",
     .help = "auto, steps: as save_steps says; no: as if save_steps were 0."},
    {"save_steps", "checkpoint_every", STEPS(save_steps), .fallback = "500",
     .help = "Between checkpoints; 0: none, though a signal still saves."},
    {"save_total_limit", NULL, UINT(save_total_limit), .unit = "checkpoints", AT_LEAST(1),
     .help = "Older checkpoints beyond this many are removed once a newer one is complete; unset: all are kept."},
    {"save_final", NULL, BOOL(save_final), .fallback = "true",
     .help = "Write output_dir/final/, a Hugging Face directory."},
    {"save_only_model", NULL, BOOL(save_only_model), .fallback = "false", .not_yet = "true",
     .help = "Checkpoints without optimizer state."},
    {"resume_from_checkpoint", "auto_resume_from_checkpoints", TEXT(resume_from_checkpoint), .fallback = "auto",
     .value_alias = "true=auto last=auto latest=auto false=none no=none",
     .help = "auto: from the newest complete checkpoint of output_dir, if any; none: start anew; else a "
         "checkpoint's directory."},

    /* memory */
    {"memory.device_cap", NULL, SIZE(memory.device_cap), .unit = "bytes", .fallback = "0",
     .help = "The device arena; 0: no cap."},
    {"memory.host_cap", NULL, SIZE(memory.host_cap), .unit = "bytes", .fallback = "0",
     .help = "Pinned and pageable memory the run may use; 0: what the machine has."},
    {"memory.nvme_cap", NULL, SIZE(memory.nvme_cap), .unit = "bytes", .fallback = "0", PLANNED_ONLY("*"),
     .help = "Space on the drive; 0: what is free."},
    {"memory.plan", NULL, TEXT(memory.plan), .fallback = "auto", .help = "auto, baseline, or the path of a plan.json."},
    {"memory.profile", "profile", TEXT(memory.profile),
     .help = "What lazytrain probe measured: plans and predicted step times go by it; unset: output_dir/profile.json, "
         "where it is there."},
    {"memory.checkpoint_interval", NULL, UINT(memory.checkpoint_interval), .unit = "layers", .fallback = "4",
     AT_LEAST(1),
     .help = "Of the baseline plan: every how many layers an activation is kept."},
    {"memory.link_gbps", NULL, REAL(memory.link_gbps), .unit = "GB/s", .fallback = "0", AT_LEAST(0),
     .help = "Throttle of each direction of the CPU device's link; 0: none."},
    {"memory.nvme_gbps", NULL, REAL(memory.nvme_gbps), .unit = "GB/s", .fallback = "0", AT_LEAST(0), .not_yet = "*",
     .help = "The same for the drive."},
    {"memory.compute_slowdown", NULL, REAL(memory.compute_slowdown), .fallback = "1", AT_LEAST(1),
     .help = "The CPU device's compute lane is stretched by this factor, to imitate other ratios of compute to "
         "transfer."},
    {"memory.sync", NULL, LIST(memory.sync), .choices = "optimizer|nvme|checkpoint", .not_yet = "*",
     .help = "Control runs: these are made to wait in place."},
    {"memory.state_tier", NULL, CHOICE(memory.state_tier), .choices = "auto|cpu|nvme", .fallback = "auto",
     .not_yet = "nvme",
     .help = "Where weights, gradients, master and moments live; a tier, or a map over the four. auto: nvme only if "
         "host_cap demands."},
    {"memory.state_tier_weights", "memory.state_tier.weights", CHOICE(memory.state_tier_weights),
     .choices = "auto|cpu|nvme", .not_yet = "nvme", .help = "Of the weights; unset: memory.state_tier."},
    {"memory.state_tier_gradients", "memory.state_tier.gradients", CHOICE(memory.state_tier_gradients),
     .choices = "auto|cpu|nvme", .not_yet = "nvme", .help = "Of the gradients."},
    {"memory.state_tier_master", "memory.state_tier.master", CHOICE(memory.state_tier_master),
     .choices = "auto|cpu|nvme", .not_yet = "nvme", .help = "Of the master weights."},
    {"memory.state_tier_moments", "memory.state_tier.moments", CHOICE(memory.state_tier_moments),
     .choices = "auto|cpu|nvme", .not_yet = "nvme", .help = "Of the moments."},
    {"memory.io_engine", NULL, CHOICE(memory.io_engine), .choices = "auto|uring|threads|cufile", .fallback = "auto",
     PLANNED_ONLY("*"), .help = "How the drive is read and written."},
    {"memory.lazy_nvme_mode", "nvme.mode", CHOICE(memory.lazy_nvme_mode), .choices = "gds|cpu_staging",
     .fallback = "gds", PLANNED_ONLY("*"),
     .help = "Activations go from the device to the drive directly, or through pinned memory."},
    {"memory.lazy_nvme_offload_dir", "nvme.offload_dir nvme_path", TEXT(memory.lazy_nvme_offload_dir), PLANNED_ONLY("*"),
     .help = "Root of the spill directories."},
    {"memory.lazy_nvme_prefetch_distance", "nvme.prefetch_distance", UINT(memory.lazy_nvme_prefetch_distance),
     .unit = "boundaries", .fallback = "0", AT_LEAST(0), PLANNED_ONLY("*"),
     .help = "Boundaries read ahead; 0: read when needed."},
    {"memory.lazy_nvme_gds_staging", "nvme.gds_staging", BOOL(memory.lazy_nvme_gds_staging), .fallback = "false",
     PLANNED_ONLY("true"), .help = "Reusable device buffers for drive writes."},

    /* optimizer */
    {"optimizer.master", NULL, CHOICE(optimizer.master), .choices = "split|f32|bf16_sr", .fallback = "split",
     .not_yet = "f32|bf16_sr",
     .help = "The FP32 master: in two 16-bit halves, whole, or none with stochastic rounding."},
    {"optimizer.moments", NULL, CHOICE(optimizer.moments), .choices = "f32|hybrid_8bit_adam", .fallback = "f32",
     PLANNED_ONLY("hybrid_8bit_adam"),
     .help = "How the moments are stored."},
    {"optimizer.eight_bit_fraction", NULL, REAL(optimizer.eight_bit_fraction), .fallback = "0.02", WITHIN(0, 1),
     PLANNED_ONLY("*"),
     .help = "Share of parameters with 8-bit moments, filled by whole tensors in model order."},

    /* numerics */
    {"numerics.micro_batch_tokens", NULL, UINT(numerics.micro_batch_tokens), .unit = "tokens", AT_LEAST(1),
     .help = "Token capacity of a micro-batch; unset: from the data."},
    {"numerics.loss_chunk", NULL, UINT(numerics.loss_chunk), .unit = "tokens", AT_LEAST(1),
     .help = "Tokens whose logits are held at once."},
    {"numerics.grad_dtype", NULL, CHOICE(numerics.grad_dtype), .choices = "auto|f32|bf16", .fallback = "auto",
     .help = "Gradients as they leave the device and are added on the host."},
    {"numerics.threads", NULL, UINT(numerics.threads), .unit = "threads", WITHIN(1, 1024),
     .help = "Of the compute lane; unset: the machine's cores."},
    {"numerics.attention_tile", NULL, UINT(numerics.attention_tile), .unit = "rows", AT_LEAST(1),
     .help = "Query rows of an attention block."},
    {"numerics.auto", NULL, BOOL(numerics.propose), .fallback = "false",
     .help = "Apply the numerics that the planner proposes from a profile (today loss_chunk): faster, in other bits. A run that "
             "goes on from a checkpoint keeps those that it began with."},

    /* spellings of other trainers that have no effect here */
    {"gradient_checkpointing", "enable_activation_checkpointing activation_checkpointing use_gradient_checkpointing",
     NO_EFFECT, .help = "The plan decides what is recomputed."},
    {"memory.num_grad_slabs", NULL, NO_EFFECT, .help = "The plan decides how many gradient buffers there are."},
    {"model.attn_implementation", "attn_implementation flash_attn flash_attention", NO_EFFECT,
     .help = "Attention is always exact and in blocks."},
    {"model.device", "model.devices", NO_EFFECT, .help = "A device is chosen by the key device."},
    {"model.trust_remote_code", "trust_remote_code", NO_EFFECT, .help = "No code of a model directory is ever run."},
    {"logging.enable_timing", "include_num_input_tokens_seen include_tokens_per_second", NO_EFFECT,
     .help = "Times and token counts are always in metrics.jsonl."},
    {"preprocessing_num_workers", "dataset_num_proc dataloader_num_workers dataset.num_workers overwrite_cache",
     NO_EFFECT, .help = "Data is prepared by the program's own threads."},
    {"streaming", "dataset.streaming buffer_size", NO_EFFECT,
     .help = "Files are always mapped and their rows made when they are used; nothing is loaded whole."},
    {"overwrite_output_dir", NULL, NO_EFFECT,
     .help = "resume_from_checkpoint says whether a run goes on; nothing else is overwritten."},
    {"report_to", "logging_dir run_name plot_loss use_tensorboard logging_strategy disable_tqdm log_level", NO_EFFECT,
     .help = "metrics.jsonl, trainer_log.jsonl and a TensorBoard file are always written to output_dir."},
    {"stage", NULL, NO_EFFECT, .choices = "sft|pt", .help = "Supervised training on rows is what train does."},
    {"do_train", "remove_unused_columns save_safetensors", NO_EFFECT, .choices = "true|True",
     .help = "Training with safetensors out is what train does."},
    {"full_determinism", "tf32 ddp_timeout ddp_backend", NO_EFFECT,
     .help = "Results are always deterministic; there is one device."},
    {"finetuning_type", NULL, NO_EFFECT, .choices = "full", .help = "Only full fine-tuning exists."},
};
/* clang-format on */
#define KEY_COUNT ((int)(sizeof table / sizeof table[0]))

/* Sections that only name a group: a flat key may stand in any of them. */
static const char *const sections[] = {"model", "data", "training", "optimizer", "memory", "logging", "nvme"};

int lzt__schema_count(void)
{
    return KEY_COUNT;
}

const lzt_key *lzt__schema_key(int index)
{
    assert(index >= 0 && index < KEY_COUNT);
    return &table[index];
}

/* a, of length bytes, equals the name b, '-' and '_' being one. */
static bool same(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((a[i] == '-' ? '_' : a[i]) != b[i]) return false;
    return true;
}

/* The next of several names separated by spaces; NULL at the end. */
static const char *next_name(const char **list, size_t *length)
{
    if (!*list) return NULL;
    const char *name = *list + strspn(*list, " ");
    *length = strcspn(name, " ");
    *list = name + *length;
    return *length ? name : NULL;
}

static bool spells_key(const lzt_key *key, const char *path, size_t path_length)
{
    if (strlen(key->name) == path_length && same(path, key->name, path_length)) return true;
    const char *list = key->aliases;
    size_t length;
    for (const char *name; (name = next_name(&list, &length));)
        if (length == path_length && same(path, name, length)) return true;
    return false;
}

static int find_exact(const char *path)
{
    size_t length = strlen(path);
    for (int i = 0; i < KEY_COUNT; i++)
        if (spells_key(&table[i], path, length)) return i;
    return -1;
}

/* "device_cap" for memory.device_cap, "master" for optimizer.master. */
static int find_bare(const char *path)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        const char *dot = strchr(table[i].name, '.');
        if (!dot || table[i].type == LZT_KEY_NONE) continue;
        if (strncmp(table[i].name, "memory.", 7) && strncmp(table[i].name, "optimizer.", 10)) continue;
        if (strlen(dot + 1) == strlen(path) && same(path, dot + 1, strlen(path))) return i;
    }
    return -1;
}

bool lzt__schema_is_section(const char *path)
{
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (!strcmp(path, sections[i])) return true;
    for (int i = 0; i < KEY_COUNT; i++) { /* the sections that canonical keys and aliases name */
        const char *list = table[i].aliases, *name = table[i].name;
        size_t length = strlen(name), path_length = strlen(path);
        for (; name; name = next_name(&list, &length))
            if (length > path_length && name[path_length] == '.' && !memcmp(name, path, path_length)) return true;
    }
    return false;
}

int lzt__schema_find(const char *path)
{
    int index = find_exact(path);
    for (size_t i = 0; index < 0 && i < sizeof sections / sizeof sections[0]; i++) {
        size_t length = strlen(sections[i]);
        if (strncmp(path, sections[i], length) || path[length] != '.') continue;
        path += length + 1;
        index = find_exact(path);
        break;
    }
    return index < 0 ? find_bare(path) : index;
}

const char *lzt__schema_nearest(const char *path, char *buffer, size_t size)
{
    char names[KEY_COUNT * 8][64];
    const char *last = strrchr(path, '.');
    lzt_nearest whole = {.wanted = path}, part = {.wanted = last ? last + 1 : path};
    size_t count = 0;
    for (int i = 0; i < KEY_COUNT; i++) {
        const char *list = table[i].aliases, *name = table[i].name;
        size_t length = strlen(name);
        for (; name && count < sizeof names / sizeof names[0]; name = next_name(&list, &length)) {
            if (length >= sizeof names[0]) continue;
            memcpy(names[count], name, length);
            names[count][length] = 0;
            const char *dot = strchr(names[count], '.');
            lzt__nearest_offer(&whole, names[count]);
            lzt__nearest_offer(&part, dot && i && !strncmp(name, "memory.", 7) ? dot + 1 : names[count]);
            count++;
        }
    }
    const lzt_nearest *closer = part.best && (!whole.best || part.distance < whole.distance) ? &part : &whole;
    const char *best = lzt__nearest_name(closer);
    if (!best) return NULL;
    snprintf(buffer, size, "%s", best);
    return buffer;
}

/* The engine's side of checkpoints: see checkpoint.h and lazytrain/train.h. */
#include "lazytrain/train.h"
#include "run/checkpoint.h"

lzt_status lzt__checkpoint_save(lzt_engine *engine, const lzt_config *config, const char *checkpoints,
                                const lzt_progress_state *progress, lzt_error *err)
{
    (void)engine, (void)config, (void)progress;
    return lzt_fail(err, LZT_ERR_STORAGE, checkpoints, "checkpoints are not part of this version yet");
}

lzt_status lzt_train_resume(lzt_train_options *options, lzt_error *err)
{
    (void)err;
    options->start_step = options->applied_steps = options->nonfinite_steps = 0;
    return LZT_OK;
}

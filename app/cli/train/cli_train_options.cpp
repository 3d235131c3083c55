#include "app/cli/train/cli_train_options.h"

#include <fmt/core.h>

#include <stdexcept>

#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/files/text/words.h"
#include "core/numerics/threads.h"

namespace moescope {

void add_train_options(Command& sub, TrainOptions& o) {
  sub.last_counts();
  const Option preset =
      sub.option("--preset", o.preset,
                 fmt::format("Start from a preset: {} (default: small); or from a comparison of several runs: {}",
                             joined(preset_names(), ", "), joined(comparison_preset_names(), ", ")));
  sub.option("--config", o.config,
             "Start from a TOML file; keys that it leaves out keep their defaults. Tables [[compare]] in it are "
             "twins, as --compare makes them")
      .excludes(preset);
  const Option from =
      sub.option(
             "--from", o.from,
             "Train on from a checkpoint of transformers (DeepSeek-V2 or -V3): a folder with config.json, which gives "
             "the settings of the model, .safetensors, whose weights the run begins with, and tokenizer.json, whose "
             "tokens it reads. Optimizer, schedule and steps begin anew")
          .excludes(preset);
  sub.option("--set", o.set, "KEY=VALUE: one key of the config, such as router.top_k=4; may be repeated").repeatable();
  sub.option("--data", o.data,
             "Text file or folder to train on (default: built-in text, see data.generator in a saved config)");
  sub.option("--precision", o.precision,
             "Recipe of number formats of the routed experts: " + joined(recipes(), ", ", &RecipeInfo::name) +
                 " (other weights: --set precision.attention=..., see precision.* in a saved config)");
  sub.option("--seed", o.seed, "Seed of weights and data");
  sub.option("--steps", o.steps,
             "Total number of steps, including those before --resume (default: optimizer.total_steps; the schedule "
             "is not changed)")
      .range(std::int64_t{0}, std::int64_t{1000000000000});
  sub.option("--threads", o.threads,
             "Threads to train on, of each rank (default: one per core, shared by the ranks on this machine); results "
             "do not depend on it")
      .range(1, kMaxThreadCount);
  sub.option(
         "--matrix-units", o.matrix_units,
         "Matrix units for BF16 and quantized operands: auto (what is faster than OpenBLAS: AMX, or AVX-512's BF16 on "
         "AMD), amx, avx512_bf16, or off (OpenBLAS). Each multiplies exactly and adds in its own order")
      .one_of({"auto", "amx", "avx512_bf16", "off"});
  sub.option("--ep", o.ep,
             "Expert-parallel ranks: spreads experts and sequences over the processes that mpirun -n EP started, "
             "bit-identically")
      .range(1, kMaxThreadCount);
  sub.option("--ranks-per-node", o.ranks_per_node,
             "With --ep: neighbouring ranks that count as one node (default: all)")
      .range(1, kMaxThreadCount);
  sub.option("--all-to-all", o.all_to_all,
             "With --ep: flat, or hierarchical: rows for another node are sent to it once and forwarded there")
      .one_of({"flat", "hierarchical"});
  sub.option("-o,--out", o.out, "Recording to write, for the window and for sqlite3");
  sub.option("--jsonl", o.jsonl, "JSON lines to write, one object per step; - is standard output");
  sub.option("--checkpoint", o.checkpoint,
             "Folder for checkpoints, DIR/<step>/<name>.safetensors; one is written at the end (default: with --out, "
             "the folder beside the recording: run.checkpoints for run.moescope)");
  sub.option("--every", o.every, "Steps between further checkpoints").range(std::int64_t{1}, std::int64_t{1000000000});
  sub.option("--resume", o.resume, "Resume from the newest checkpoint in this folder, with its config, bit-identically")
      .excludes(from);
  sub.option(
         "--compare", o.compare,
         fmt::format(
             "KEY=VALUE[,KEY=VALUE...]: train a twin with these settings changed, on the same batches, and report the "
             "difference at the end; may be repeated, up to {} twins. More than three train in groups, one after the "
             "other, each beside run A; --out then names one recording a group, NAME-1.moescope, NAME-2.moescope, ...",
             kMaxCandidates))
      .repeatable();
  sub.option("--noise-twin", o.noise_twin,
             "Train a noise twin with another seed (other initial weights, same batches): its loss gap shows the "
             "effect of chance");
  sub.option("--perturbed-twin", o.perturbed_twin,
             "Train a noise twin whose first weights are perturbed in the last place: its loss gap shows the effect of "
             "chance with the same start and gives narrower intervals");
  sub.option("--dense-twin", o.dense_twins,
             "Train a twin without experts: dense feed-forwards with as many weights as a token multiplies in the run "
             "(active), or as the run has (total); may be given twice")
      .one_of({"active", "total"})
      .repeatable();
  sub.option("--epsilon", o.epsilon,
             "A comparison reports the first step with a larger loss difference than this (default: 0.05)")
      .range(0.0, 100.0);
  sub.option(
      "--table", o.table,
      "With --compare: table of outcomes to write, .csv or .json: loss, gap to run A with its interval and "
      "verdict, gradient error, flips, underflow, worst and mean SQNR of the operands that differ in dB, MaxVio, "
      "tokens/s");
  const Option overwrite = sub.option("--overwrite", o.overwrite, "Replace existing files");
  sub.option("--continue", o.continues,
             "With more than four twins: keep the groups whose recordings an earlier start of this command "
             "finished, and train the others")
      .excludes(overwrite);
}

std::optional<Recipe> recipe_option(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (const auto recipe = recipe_named(name)) return recipe;
  throw std::runtime_error(
      fmt::format("--recipe: is \"{}\"; allowed: {}", name, joined(recipes(), ", ", &RecipeInfo::name)));
}

}  // namespace moescope

#include "app/cli/cli_train_options.h"

#include "core/config/run_config.h"

namespace moescope {

void add_train_options(CLI::App& sub, TrainOptions& o) {
  sub.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::string presets;
  for (const std::string& name : preset_names()) presets += (presets.empty() ? "" : ", ") + name;
  presets += " (default: small); or from a comparison of several runs:";
  for (const std::string& name : comparison_preset_names()) presets += (presets.ends_with(':') ? " " : ", ") + name;
  auto* preset = sub.add_option("--preset", o.preset, "Start from a preset: " + presets);
  sub.add_option("--config", o.config,
                 "Start from a TOML file; keys that it leaves out keep their defaults. Tables [[compare]] in it are "
                 "twins, as --compare makes them")
      ->excludes(preset);
  sub.add_option("--set", o.set, "KEY=VALUE: one key of the config, such as router.top_k=4; may be repeated")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  sub.add_option("--data", o.data, "Text file or folder to train on (default: the built-in generator)");
  std::string formats;
  for (const RecipeInfo& info : recipes()) formats += (formats.empty() ? "" : ", ") + std::string(info.name);
  sub.add_option("--precision", o.precision,
                 "Recipe of number formats of the routed experts: " + formats +
                     " (other weights: --set precision.attention=..., see precision.* in a saved config)");
  sub.add_option("--seed", o.seed, "Seed of weights and data");
  sub.add_option("--steps", o.steps,
                 "Total number of steps, including those before --resume (default: optimizer.total_steps; the schedule "
                 "is not changed)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1000000000000}));
  sub.add_option(
         "--threads", o.threads,
         "Threads to train on, of each rank (default: one per core, shared by the ranks on this machine); results "
         "do not depend on it")
      ->check(CLI::Range(1, 1024));
  sub.add_option("--ep", o.ep,
                 "Expert-parallel ranks: spreads experts and sequences over the processes that mpirun -n EP started, "
                 "bit-identically")
      ->check(CLI::Range(1, 1024));
  sub.add_option("--ranks-per-node", o.ranks_per_node,
                 "With --ep: neighbouring ranks that count as one node (default: all)")
      ->check(CLI::Range(1, 1024));
  sub.add_option("--all-to-all", o.all_to_all,
                 "With --ep: flat, or hierarchical: rows for another node are sent to it once and forwarded there")
      ->check(CLI::IsMember({"flat", "hierarchical"}));
  auto* serve = sub.add_option("--serve", o.serve,
                               "Port on which moescope --attach can watch the training; creates the token for it and "
                               "prints it, or uses MOESCOPE_TOKEN (16 characters or more), which is not printed")
                    ->check(CLI::Range(1, 65535));
  sub.add_option("--serve-address", o.serve_address,
                 "With --serve: address to listen on (default: 127.0.0.1, this machine only). Any other lets other "
                 "machines in, with nothing encrypted: prefer a tunnel, ssh -L PORT:127.0.0.1:PORT HOST")
      ->needs(serve);
  sub.add_option("--out", o.out, "Recording to write, for the window and for sqlite3");
  sub.add_option("--jsonl", o.jsonl, "JSON lines to write, one object per step; - is standard output");
  sub.add_option("--checkpoint", o.checkpoint,
                 "Folder for checkpoints, DIR/<step>/<name>.safetensors; one is written at the end");
  sub.add_option("--every", o.every, "Steps between further checkpoints")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000000}));
  sub.add_option("--resume", o.resume,
                 "Resume from the newest checkpoint in this folder, with its config, bit-identically");
  sub.add_option("--compare", o.compare,
                 "KEY=VALUE[,KEY=VALUE...]: train a twin that differs in this, in lock-step on the same batches, and "
                 "report the difference at the end; may be repeated, up to three twins")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  sub.add_flag(
      "--noise-twin", o.noise_twin,
      "Train a twin that differs only in its seed (other initial weights, same batches): its difference is noise");
  sub.add_option("--epsilon", o.epsilon,
                 "A comparison reports the first step with a larger loss difference than this (default: 0.05)")
      ->check(CLI::Range(0.0, 100.0));
  sub.add_flag("--overwrite", o.overwrite, "Replace existing files");
}

}  // namespace moescope

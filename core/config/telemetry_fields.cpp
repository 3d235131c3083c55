// The fields of [telemetry].
#include "core/config/field_maker.h"

namespace moescope {

std::vector<ConfigField> telemetry_fields() {
  FieldTable t;
  t.group("Telemetry");
  t.add(live(field<&TelemetryConfig::frame_interval>(
      "every", "Router arrays every", "steps", {1, 10000},
      "Steps between recorded expert loads and all-to-all matrices; losses are recorded at every step. 1: every step. "
      "A larger value keeps the recordings of long runs small.")));
  t.add(live(field<&TelemetryConfig::quant_every>(
      "quant_every", "Quantization every", "steps", {1, 10000},
      "Steps between quantization statistics (scale histogram, SQNR, underflow, clipping).")));
  t.add(live(field<&TelemetryConfig::flips_every>(
      "flips_every", "Routing flips every", "steps", {0, 10000},
      "Steps between comparisons of the routing with that of run A, token by token: the share of the tokens that have "
      "another set of experts, and their score margins. Only with more than one run. The value of run A also sets the "
      "steps at which its routing is kept for runs that join later. 0: never.")));
  t.add(live(field<&TelemetryConfig::gradient_every>(
      "gradient_every", "Gradient error every", "steps", {0, 10000},
      "Steps between comparisons of the gradients with those of an additional forward and backward pass in FP32 on the "
      "same weights and batch: signal-to-noise ratio and cosine by layer and kind of tensor; the share of the tokens "
      "that FP32 would have routed to other experts, and what each rounding to BF16 in the router alone does to the "
      "choice; the difference of the predictions. Where experts differ, another FP32 pass with the run's experts "
      "follows. Such a step takes two to three times as long. No effect on the training. 0: never.")));
  t.add(live(field<&TelemetryConfig::validation_every>(
      "validation_every", "Validation every", "steps", {0, 10000},
      "Steps between losses of four fixed batches that are never trained on and do not depend on the seed. Because the "
      "text is always the same, they show the difference of two runs without the variation between batches. Each costs "
      "four forward passes. No effect on the training. Your own text needs a held-out share (data.held_out). 0: "
      "never.")));
  t.add(field<&TelemetryConfig::window>(
      "window", "Balance window", "steps", {2, 10000},
      "Number of steps over which MaxVio (window) and unused experts are computed. A single batch contains sampling "
      "noise: a value that is high in the batch and low in the window means oscillation or noise, a value that is high "
      "in both means imbalance."));
  t.add(live(field<&TelemetryConfig::checkpoint_every>(
      "checkpoint_every", "Checkpoints every", "steps", {0, 1e6},
      "Steps between automatic checkpoints, to which the training can be rewound and from which a twin can start. Each "
      "is a copy of 12 bytes per parameter, in memory and in the folder NAME.checkpoints beside the recording. A "
      "checkpoint delays the training by about 6 ms per million parameters: at the default of 100 steps, 0.3 % of the "
      "time of the preset mini-v3. The value of run A applies to all runs. 0: manual checkpoints only.")));
  t.add(live(field<&TelemetryConfig::checkpoints_kept>(
      "checkpoints_kept", "Checkpoints kept", "checkpoints", {1, 64},
      "Number of checkpoints that are kept, with 512 MiB at most (two of mini-v3, all 8 of the default for smaller "
      "models). They are close together near the newest step and farther apart before it; the first one and manual "
      "ones are removed last.")));
  t.add(live(field<&TelemetryConfig::specialisation_every>(
      "specialisation_every", "Specialisation every", "steps", {0, 10000},
      "Steps between tables of expert choices: domain by expert, expert by expert, byte by expert. A table counts "
      "every batch since the previous one, so that less frequent tables have less noise. The last step of the schedule "
      "has a table, too. 0: never.")));
  t.add(live(field<&TelemetryConfig::texts_every>(
      "texts_every", "Probe routing every", "steps", {0, 10000},
      "Steps between routings of the probe text, token by token and layer by layer, with the weights of that step. A "
      "passage of the last batch is added, from each domain in turn. An edited probe text is routed immediately. "
      "The last step of the schedule is due, too. No effect on the training. 0: never.")));
  t.add(live(field<&TelemetryConfig::probe>(
      "probe", "Probe text",
      "Text whose routing is shown in the workspace Text and compared from step to step; at most 1024 bytes. \\n is a "
      "new line, \\t a tab, \\x41 the byte 0x41, \\\\ a backslash. Longer texts than data.seq are read in pieces of "
      "that length, as in training. Empty: no probe.")));
  t.add(live(field<&TelemetryConfig::sample_every>(
      "sample_every", "Sample every", "steps", {0, 10000},
      "Steps between samples: texts in which the model continues the beginning of the probe text. A sample takes up to "
      "one forward pass per token. The last step of the schedule has one, too. 0: never.")));
  t.add(live(field<&TelemetryConfig::sample_length>(
      "sample_length", "Sample length", "tokens", {1, 1024},
      "Number of tokens of a sample. Prompt and sample together are at most data.seq long.")));
  t.add(live(field<&TelemetryConfig::sample_temperature>(
      "sample_temperature", "Temperature", "", {0, 5},
      "Randomness of a sample. 0: the most likely token each time, which soon repeats itself. 1: as the model "
      "predicts. Larger: more random. The random numbers depend on seed and step only, so that the same run writes the "
      "same text.")));
  return t.fields;
}

}  // namespace moescope

#include "core/telemetry/history/metrics.h"

#include <array>

namespace moescope {

namespace {

constexpr Provenance kMeasured = Provenance::measured_here;
constexpr Provenance kCounted = Provenance::counted;

// In the order of Metric.
constexpr std::array<MetricInfo, kNumMetrics> kMetrics = {{
    {"ce_loss", "Cross-entropy loss", "nats/token", "mean over tokens of -ln p(next token)",
     "Falls steadily; below the text's unigram entropy once context is used. A uniform guess has ln(vocabulary): ln "
     "256 "
     "= 5.55 where a token is a byte, as in the models trained here.",
     "Rises or jumps: learning rate too high, or a number format that loses the gradient. NaN: diverged.",
     "optimizer.lr, precision.experts", "cross-entropy in nats; divide by ln 2 for bits per token", kMeasured},
    {"aux_loss", "Load-balance loss", "", "sum over MoE layers of the layer's auxiliary loss, coefficient included",
     "Small beside the cross-entropy. batch: an even load makes it its coefficient times the number of MoE layers; "
     "sequence: the same where every sequence is even in itself, and usually more.",
     "As large as the cross-entropy: the router learns to balance before it learns anything else.",
     "router.aux_mode, router.aux_coeff",
     "Switch Transformer arXiv:2101.03961; sequence-wise: DeepSeek-V3 arXiv:2412.19437, whose f_e counts the top K "
     "without the bias; here it counts the experts that were chosen, as TorchTitan does",
     kMeasured},
    {"z_loss", "Router z-loss", "", "sum over MoE layers of coefficient * mean_t (ln sum_e exp logit_te)^2",
     "Small and flat: router logits stay small.", "Grows: logits drift to sizes where low precision rounds them.",
     "router.z_coeff", "ST-MoE arXiv:2202.08906", kMeasured},
    {"grad_norm", "Gradient norm", "", "sqrt(sum of squares of all gradients), before clipping",
     "Falls early, then slowly varies below a few times its median.",
     "Spikes: a bad batch or instability; always above the clip limit: every step is cut short.",
     "optimizer.clip, optimizer.lr", "global L2 norm, as in torch.nn.utils.clip_grad_norm_", kMeasured},
    {"lr", "Learning rate", "", "warm-up, then constant or cosine from lr to lr_min", "Follows the schedule.",
     "Too high: the loss spikes. Too low: it falls very slowly.",
     "optimizer.lr, optimizer.schedule, optimizer.warmup_steps", "the run's schedule", kMeasured},
    {"tokens_per_s", "Throughput", "tokens/s", "tokens of the step / wall time of the step", "Flat over the run.",
     "Falls: the machine is shared or hot, or the experts' load has become uneven.", "model sizes, data.batch",
     "wall clock", kMeasured},
    {"step_ms", "Step time", "ms", "sum over the phases of the step", "Flat over the run.",
     "Grows: see which phase of the step it is.", "model sizes, data.batch, precision.experts", "wall clock",
     kMeasured},

    {"max_vio_p50", "MaxVio (batch), median layer", "", "median over the MoE layers of the step's MaxVio (batch)",
     "Near the sampling-noise floor.", "High: more than half of the layers are uneven.",
     "router.bias_update_rate, router.aux_coeff", "percentiles over layers: NVIDIA/Megatron-LM#2398", kMeasured},
    {"max_vio_p90", "MaxVio (batch), 90 % of layers", "",
     "90th percentile, between two layers interpolated, over the MoE layers of the step's MaxVio (batch)",
     "Near the sampling-noise floor.", "Far above the median: a few layers are uneven; the view by layer says which.",
     "router.bias_update_rate, router.aux_coeff", "percentiles over layers: NVIDIA/Megatron-LM#2398", kMeasured},
    {"max_vio_max", "MaxVio (batch), worst layer", "", "largest over the MoE layers of the step's MaxVio (batch)",
     "Near the sampling-noise floor.", "Far above the rest: one layer is uneven, often the first MoE layer.",
     "router.bias_update_rate, router.aux_coeff", "percentiles over layers: NVIDIA/Megatron-LM#2398", kMeasured},
    {"max_vio_window_p50", "MaxVio (window), median layer", "",
     "median over the MoE layers of the step's MaxVio (window)", "Near 0.",
     "High: more than half of the layers are uneven.", "router.bias_update_rate, router.aux_coeff",
     "percentiles over layers: NVIDIA/Megatron-LM#2398", kMeasured},
    {"max_vio_window_p90", "MaxVio (window), 90 % of layers", "",
     "90th percentile, between two layers interpolated, over the MoE layers of the step's MaxVio (window)", "Near 0.",
     "Far above the median: a few layers are uneven; the view by layer says which.",
     "router.bias_update_rate, router.aux_coeff", "percentiles over layers: NVIDIA/Megatron-LM#2398", kMeasured},
    {"max_vio_window_max", "MaxVio (window), worst layer", "",
     "largest over the MoE layers of the step's MaxVio (window)", "Near 0.",
     "Far above the rest: one layer is uneven, often the first MoE layer.", "router.bias_update_rate, router.aux_coeff",
     "percentiles over layers: NVIDIA/Megatron-LM#2398", kMeasured},
    {"max_vio", "MaxVio (batch)", "", "max_e u_e - 1 = (max_e n_e - n) / n, this batch",
     "Near the sampling-noise floor, which a perfectly balanced router shows by chance.",
     "1 means that the fullest expert has twice its share: with expert parallelism its rank makes all others wait.",
     "router.bias_update_rate, router.aux_coeff", "arXiv:2408.15664", kMeasured},
    {"max_vio_window", "MaxVio (window)", "", "max_e u_e - 1 with n_e summed over the last W steps",
     "Near 0: what single batches show averages out over the window.",
     "As high as the batch's: the same experts are hot all the time. Much lower than a high batch value: the load "
     "oscillates, the bias rate may be too high.",
     "router.bias_update_rate, router.aux_coeff, telemetry.window", "arXiv:2408.15664 (MaxVio global)", kMeasured},
    {"cv", "Coefficient of variation", "", "std_e(n_e) / n, population standard deviation",
     "Near sqrt((1 - K/E) / n), which chance alone gives.", "Above 1: a few experts carry most of the load.",
     "router.bias_update_rate, router.aux_coeff", "arXiv:1701.06538 (its square is the load loss)", kMeasured},
    {"entropy_norm", "Load entropy", "", "H / ln E, H = -sum_e p_e ln p_e, p_e = n_e / sum n_e", "Near 1: even.",
     "Falls: E^value is about the number of experts that are in use.", "router.bias_update_rate, router.aux_coeff",
     "Shannon entropy of the load; exp(H) / E is NeMo Automodel's diversity", kMeasured},
    {"dead_fraction", "Dead experts", "share", "#{e: no token in the last W steps} / E", "0.",
     "Above 0 for long: parameters that no token uses and no gradient reaches. In the first W steps it only says that "
     "the window is not full.",
     "router.bias_update_rate, router.aux_coeff, telemetry.window", "counted over the window W", kMeasured},
    {"score_entropy", "Score entropy", "nats", "mean over tokens of -sum_e p_e ln p_e, p_e = s_e / sum s_e",
     "Between ln K and ln E and falling: the router is getting more confident.",
     "Stays at ln E: it does not distinguish experts. Falls under ln K: fewer than K experts matter to a token.",
     "router.z_coeff, router.score_func", "Shannon entropy of one token's scores; not that of the load", kMeasured},
    {"margin", "Score margin", "", "mean over tokens of s_(K) - s_(K+1), bias included",
     "Well above the rounding error of the router's precision.",
     "Near 0: choices are nearly ties; quantization or a bias step flips them.",
     "router.bias_update_rate, precision.experts", "K-th minus (K+1)-th biased score", kMeasured},
    {"router_aux_loss", "Load-balance loss of the layer", "",
     "a E sum_e f_e P_e, f_e = n_e / (T K), P_e mean normalised score, a the coefficient; in sequence mode of each "
     "sequence, and their mean",
     "Near the coefficient. batch: an even load gives just that; sequence: only if every sequence is even in itself, "
     "so that an even batch is usually above it.",
     "Well above it: the experts with more tokens have the higher scores, too. It is no measure of the load: scores "
     "that are all alike give the coefficient at any load.",
     "router.aux_mode, router.aux_coeff",
     "arXiv:2101.03961; arXiv:2412.19437, whose f_e counts the top K without the bias; here, as in TorchTitan, the "
     "experts that were chosen",
     kMeasured},
    {"router_z_loss", "Router z-loss of the layer", "", "coefficient * mean_t (ln sum_e exp logit_te)^2",
     "Small and flat.", "Grows: this layer's logits drift.", "router.z_coeff", "arXiv:2202.08906", kMeasured},
    {"padding_fraction", "Padding waste", "share", "sum_e (ceil(n_e / 32) 32 - n_e) / sum_e n_e",
     "Near 0: groups are long against 32 rows.",
     "High: with few tokens per expert a grouped GEMM mostly multiplies zero rows.", "data.batch, model.n_experts",
     "torchao MXFP8 grouped GEMM (pads groups to 32 rows), whatever the run's own format", kMeasured},
    {"dropped_fraction", "Dropped (what-if)", "share",
     "sum_e max(0, n_e - ceil(c T K / E)) / (T K), c the capacity factor", "0.",
     "What a router with that capacity would have dropped; this one drops nothing.", "router.capacity_factor",
     "arXiv:2101.03961", kMeasured},
    {"mutual_information", "Mutual information", "nats",
     "H(mean over tokens of p_te) - mean over tokens of H(p_te), p_te = s_te / sum_e s_te, H(p) = -sum p ln p",
     "Rises from 0: the scores depend on the token; at most ln E.",
     "Stays at 0 while training goes on: the router gives every token the same scores, however even the load is.",
     "router.score_func, router.aux_coeff, router.z_coeff",
     "between token and expert of the score distribution; as in Fast-LLM's routing metrics", kMeasured},
    {"flip_rate", "Routing flips", "share",
     "#{tokens whose set of K experts differs from run A's at the same step} / T, mean over layers",
     "Small and flat. 0 as long as the runs' weights and formats agree.",
     "Grows from layer to layer and with the steps: a flipped token changes all that follows, so two runs drift apart "
     "in routing long before they do in loss. Two seeds agree only by chance: read it beside the noise twin's.",
     "precision.experts, router.bias_update_rate", "set of chosen experts compared token by token with run A",
     kMeasured},
    {"quant_sqnr_db", "SQNR, mean of operands", "dB",
     "mean over the quantized operands of 10 log10(sum x^2 / sum (x - q)^2)",
     "On bell-shaped data, rounded to nearest: E4M3 about 31.5 dB and E5M2 25.6 dB, in MX and in FP8; NVFP4 20.4 dB; "
     "MXFP4 18.8 dB. Stochastic rounding costs 3 dB.",
     "Falls while training: some tensor's values spread beyond what a scale covers; see which operand.",
     "precision.experts", "as torchao's compute_error, averaged in dB", kMeasured},
    {"gradient_snr_db", "Gradient SNR", "dB", "20 log10(||r|| / ||g - r||), r the gradient of an FP32 pass",
     "Tens of dB: the noise of the format is small beside the gradient.",
     "Near 0 dB: the error is as large as the gradient. Flipped tokens count, too: another expert gets their gradient.",
     "precision.experts, telemetry.gradient_every",
     "against an FP32 forward and backward of the same weights and batch; arXiv:2506.20752", kMeasured},
    {"gradient_cosine", "Gradient cosine", "", "g.r / (||g|| ||r||), r the gradient of an FP32 pass",
     "Above 0.99: the step goes where FP32 would have gone.",
     "Falls: the direction is lost, which no learning rate repairs. It does not see a wrong overall length.",
     "precision.experts, telemetry.gradient_every",
     "against an FP32 forward and backward of the same weights and batch; arXiv:2506.20752", kMeasured},
    {"ranks_per_token", "Ranks per token", "ranks",
     "token copies, one per destination rank / T, mean over layers; own rank counted",
     "Well under min(K, R): a token's experts share ranks, and DeepEP merges their copies.",
     "Near min(K, R): every chosen expert lies on another rank, nothing can be merged.",
     "parallel.ranks, router.n_limited_groups, router.top_k", "DeepEP layout (is_token_in_rank)", kCounted},
    {"nodes_per_token", "Nodes per token", "nodes",
     "token copies, one per destination node / T, mean over layers; own node counted",
     "Near 1, or at the limit of node-limited routing (DeepSeek-V3: 4).",
     "Near min(K, nodes): every token crosses the slow network to almost every node.",
     "parallel.ranks_per_node, router.n_limited_groups", "DeepSeek-V3 arXiv:2412.19437, node-limited routing",
     kCounted},
    {"rank_overload", "Fullest rank", "x mean",
     "max_r n_r / mean_r n_r, n_r the token copies (one per chosen expert) that arrive on rank r, mean over layers",
     "Near 1: all ranks compute as much.",
     "1.5 means that all others wait for a rank with half as much again as the mean; placement may help where the "
     "experts' load is uneven but stable.",
     "parallel.ranks, router.bias_update_rate, router.aux_coeff", "Megatron-LM's overload factor", kCounted},
    {"rounding_flip_rate", "Routing flips by rounding", "share",
     "#{tokens whose set of K experts differs from an FP32 pass's with the same weights} / T, mean over layers",
     "A few per cent in 8 bits, some ten in 4: the formats decide choices that are nearly ties; the drift of the runs' "
     "weights has no part in it.",
     "High or growing with the layers: the formats' errors reach the router. Where its gate is quantized, too, compare "
     "with it in fp32.",
     "precision.router_gate, precision.experts, telemetry.gradient_every",
     "set of chosen experts compared token by token with the FP32 pass that gives the gradients", kMeasured},
}};

constexpr std::array<MetricInfo, 9> kQuantMetrics = {{
    {"amax", "Largest value (amax)", "", "max |x| of the tensor", "Changes slowly.",
     "Grows without limit or is not finite: the layer is diverging.", "optimizer.lr", "largest absolute value",
     kMeasured},
    {"sqnr_db", "SQNR", "dB", "10 log10(sum x^2 / sum (x - q)^2)",
     "On bell-shaped data, rounded to nearest: E4M3 about 31.5 dB and E5M2 25.6 dB, in MX and in FP8; NVFP4 20.4 dB; "
     "MXFP4 18.8 dB. Stochastic rounding costs 3 dB.",
     "Several dB below: clipped block maxima or a few values that dominate their block. Read it with underflow: SQNR "
     "hides small values that vanish.",
     "precision.experts", "as torchao's compute_error", kMeasured},
    {"relative_l2", "Relative error", "", "||x - q|| / ||x|| = 10^(-SQNR / 20)",
     "On bell-shaped data E4M3 about 0.027, E5M2 0.053, NVFP4 0.095, MXFP4 0.115.",
     "Several times that: the data spread beyond what a scale covers.", "precision.experts",
     "relative L2 norm of the error", kMeasured},
    {"cosine", "Cosine similarity", "", "x.q / (||x|| ||q||)",
     "On bell-shaped data E4M3 0.9996, E5M2 0.9986, NVFP4 0.9955, MXFP4 0.993.",
     "Falls: the direction of the tensor changes. It does not see a wrong overall scale.", "precision.experts",
     "cosine of the angle between before and after", kMeasured},
    {"underflow", "Underflow", "share", "#{x != 0 and q = 0} / #{x != 0}",
     "On bell-shaped data next to none in E4M3 and E5M2, 7 % in NVFP4, 11 % in MXFP4. Zeros that were zeros do not "
     "count.",
     "High: small values are lost although SQNR may look fine; typical of gradients.", "precision.experts",
     "TransformerEngine's underflows % counts the same, but over all values instead of those that are not zero",
     kMeasured},
    {"clipped", "Clipped values", "share", "#{|x| / scale > largest number of the format} / #x",
     "0 in MX with RCEIL or CEIL and in FP8, which never clip.",
     "FLOOR clips block maxima whose significand exceeds the largest number's (1.75 in E4M3, 1.5 in E2M1), EVEN some "
     "of them. NVFP4 rounds its block scales to nearest: half of its block maxima clip, by a seventeenth at most.",
     "precision.experts", "includes values that would have rounded down to the largest number anyway", kMeasured},
    {"clipped_blocks", "Clipped blocks", "share", "#{blocks with a clipped value} / #blocks",
     "0 in MX with RCEIL or CEIL and in FP8. Half of them in NVFP4, by design.",
     "FLOOR on bell-shaped data clips 17 % of the blocks of 32 in E4M3, E5M2 and E3M2, 10 % in E2M3, 30 % in E2M1; on "
     "values of one size, all or none.",
     "precision.experts", "a block is what shares a scale, along the contracting dimension", kMeasured},
    {"crest", "Crest factor", "", "mean over blocks of amax / rms; a block is what shares a scale",
     "On bell-shaped data 2.1 in blocks of 16 (NVFP4), 2.4 of 32 (MX), 2.8 of 128; more in whole rows and tensors.",
     "Towards sqrt(n) in blocks of n values (4 of 16, 5.7 of 32): one value dominates its block and takes the others' "
     "precision.",
     "precision.hadamard", "peak over root mean square", kMeasured},
    {"e8m0_blocks", "Block scales", "blocks",
     "blocks by scale: in MX 2^k, stored as byte k + 127; in NVFP4 and FP8 all scales from 2^k to 2^(k+1) together",
     "A narrow hump that moves slowly.",
     "Two humps: parts of the tensor of different size. At the lowest scale of MX, 2^-127: blocks of zeros or too "
     "small to scale. Counted apart: blocks with NaN or Inf.",
     "precision.experts", "OCP Microscaling Formats v1.0; NVFP4: arXiv:2509.25149; FP8: torchao float8", kMeasured},
}};

constexpr std::array<MetricInfo, 21> kArrayMetrics = {{
    {"utilisation", "Utilisation", "x fair share", "u_e = n_e E / (K T)",
     "1 is fair. Chance alone spreads it by sqrt((1 - K/E) / n), n = T K / E the fair number of tokens: by 0.08 at n = "
     "128, by 0.35 at n = 8.",
     "2 has twice its share, 0 is dead. In expert parallelism the fullest rank sets the pace.",
     "router.bias_update_rate, router.aux_coeff", "NeMo Automodel, expert utilization ratio", kMeasured},
    {"expert_bias", "Expert bias", "", "b_e += rate * sign(n - n_e), its mean taken off if centred; selection only",
     "Settles into a spread that differs by layer.",
     "Grows without end: the bias chases a load it cannot move. Zigzags by whole steps: the rate is too high.",
     "router.bias_update_rate, router.bias_centring", "arXiv:2408.15664; TorchTitan", kMeasured},
    {"score_mass", "Score mass", "share", "mean over tokens of s_e / sum s_e", "1/E each, or a stable preference.",
     "Far from the assignment load: the bias, not the router, decides which experts work.", "router.aux_coeff",
     "P_e of the load-balance loss", kMeasured},
    {"gate_mass", "Gate mass", "share", "sum of the mixing weights of expert e / sum of all mixing weights",
     "Follows the load.", "Much less than the load: the expert works but its result hardly counts.",
     "router.route_norm, router.bias_update_rate", "share of the combined output's weights", kMeasured},
    {"copies", "Standard all-to-all", "token copies", "one copy per chosen expert, source rank to expert's rank",
     "Even columns.", "A full column: that rank receives most and all wait for it.", "parallel.ranks, router.top_k",
     "counted from this step's routing", kCounted},
    {"distinct", "De-duplicated all-to-all", "token copies", "one copy per token and destination rank",
     "Well under the standard count: tokens choose several experts of one rank.",
     "Equal to the standard count: every copy goes to a different rank, so there is nothing to merge.",
     "parallel.ranks, router.n_limited_groups", "DeepEP layout (is_token_in_rank)", kCounted},
    {"nodes", "Copies between nodes", "token copies", "one copy per token and destination node, own node counted",
     "Near 1 per token.", "Near min(K, nodes) per token: every token crosses the network everywhere.",
     "parallel.ranks_per_node, router.n_limited_groups", "DeepEP internode dispatch", kCounted},
    {"margin_tokens", "Tokens by margin", "tokens", "tokens by run A's s_(K) - s_(K+1), two bins to a factor of two",
     "A hump well to the right of the flips.", "Much of it at narrow margins: many choices are nearly ties.",
     "router.bias_update_rate", "K-th minus (K+1)-th biased score of run A", kMeasured},
    {"margin_flipped", "Flips by margin", "tokens", "those of them whose set of experts differs from run A's",
     "Only at the narrowest margins: rounding decides ties.",
     "At wide margins, too: the runs have drifted apart, it is no longer rounding that flips.", "precision.experts",
     "K-th minus (K+1)-th biased score of run A", kMeasured},
    {"score_histogram", "Scores", "scores",
     "T E scores before the bias, two bins to a factor of two: those of the T K chosen experts and all others",
     "Two humps: what is chosen scores clearly higher.",
     "One hump: the choice is between nearly equal scores; all in one bin: the scores are saturated.",
     "router.score_func, router.z_coeff", "counted from this step's routing", kMeasured},
    {"margin_histogram", "Margins", "tokens", "tokens by s_(K) - s_(K+1), bias included, two bins to a factor of two",
     "A hump well above the rounding error of the router's precision.",
     "Much of it at narrow margins: many choices are nearly ties.", "router.bias_update_rate",
     "K-th minus (K+1)-th biased score", kMeasured},
    {"domain_share", "Domain specialisation", "share", "P(e | d) = slots of expert e from domain d / all slots of d",
     "Rows differ: domains have experts of their own. 1/E each is no specialisation.",
     "All rows alike: what an expert gets does not depend on what the text is about.",
     "router.aux_mode, router.aux_coeff, data.path", "OLMoE arXiv:2409.02060, section 5", kMeasured},
    {"domain_lift", "Lift", "x its share", "P(e | d) / P(e), P(e) = slots of expert e / all slots",
     "Far from 1 somewhere: 4 means that the domain uses this expert four times as often as all text does.",
     "1 everywhere: no specialisation by domain.", "router.aux_mode, router.aux_coeff, data.path",
     "P(expert | domain) over its baseline; OLMoE arXiv:2409.02060", kMeasured},
    {"coactivation", "Co-activation", "share", "N(i and j) / N(i): tokens of expert i that chose j, too",
     "Above chance, (K - 1) / (E - 1), in pairs or teams: experts that work together.",
     "One column bright for all rows: an expert that is chosen together with all others, in effect a shared expert.",
     "router.top_k, router.n_groups", "OLMoE arXiv:2409.02060; directed", kMeasured},
    {"byte_affinity", "Byte affinity", "x its share",
     "P(b | e) / P(b), P(b | e) = slots of expert e from tokens that are byte b / all its slots",
     "A few bytes far above 1: the expert specialises on them. Small models specialise on bytes first.",
     "1 everywhere: the expert gets all kinds of bytes.", "model.n_experts, router.top_k",
     "vocabulary specialisation, OLMoE arXiv:2409.02060", kMeasured},
    {"routing_stability", "Routing stability", "share",
     "mean over the probe's tokens of |top_K now and top_K at the reference step| / K",
     "Rises to 1 as the reference approaches the end: routing settles. Chance alone gives K/E.",
     "Falls suddenly: the router was disrupted, by a change of data, bias rate or format.",
     "router.bias_update_rate, optimizer.lr", "router saturation, OLMoE arXiv:2409.02060", kMeasured},
    {"unchanged_choices", "Unchanged choices", "share",
     "#{tokens of the probe whose set of K experts is that of the reference step} / T",
     "Rises as the router settles. Chance alone gives 1 / (E over K), next to nothing.",
     "Falls suddenly: the router was disrupted. Stays low while single experts stay the same: in each set one expert "
     "changes, usually the last, which is chosen by the narrowest margin.",
     "router.bias_update_rate, optimizer.lr", "set of chosen experts compared token by token with the earlier step",
     kMeasured},
    {"bytes_moved", "Moved by dispatch", "bytes",
     "copies that leave their rank * bytes of a token's row; one copy per chosen expert, or de-duplicated one per "
     "destination rank",
     "De-duplicated well under the standard volume; either far under T K times the row's bytes.",
     "Near T K times the row's bytes: nothing stays on its rank and nothing is merged. Combine moves as much again, in "
     "reverse.",
     "parallel.ranks, router.top_k, router.n_limited_groups, parallel.placement", "counted from this step's routing",
     kCounted},
    {"bytes_across_nodes", "Across nodes", "bytes",
     "copies to ranks of another node * bytes of a token's row; de-duplicated: one copy per token and destination node",
     "A small part of what is moved: fast links inside the node carry the rest.",
     "Nearly all that is moved: the network between nodes, some ten times slower, sets the pace.",
     "parallel.ranks_per_node, router.n_limited_groups, parallel.placement", "DeepEP internode dispatch", kCounted},
    {"dispatch_overload", "Fullest rank of the layer", "x mean",
     "max_r n_r / mean_r n_r, n_r the copies that arrive on rank r, those that stay included",
     "Near 1: all ranks compute as much.",
     "1.5: all others wait while one rank computes half as much again as the mean.",
     "router.bias_update_rate, router.aux_coeff, parallel.placement", "Megatron-LM's overload factor", kCounted},
    {"bytes_saved", "Saved by de-duplication", "share",
     "1 - moved copies with one per destination rank / moved copies with one per chosen expert",
     "High: tokens choose several experts of the same rank, as with node-limited routing.",
     "0: every copy goes to a different rank, so there is nothing to merge.",
     "router.n_limited_groups, router.top_k, parallel.ranks", "DeepEP layout (is_token_in_rank)", kCounted},
}};

}  // namespace

const char* provenance_name(Provenance provenance) {
  static constexpr const char* kNames[kNumProvenances] = {
      "measured here", "measured elsewhere", "counted", "modelled", "fitted", "assumed", "published"};
  return kNames[static_cast<int>(provenance)];
}

const char* provenance_meaning(Provenance provenance) {
  static constexpr const char* kMeanings[kNumProvenances] = {
      "taken from this run while it trained: values, numbers of tokens, times",
      "taken on other machines, and stored with the program or in a file",
      "copies, bytes and FLOPs that follow exactly from a routing and a shape, whether or not anything was sent",
      "computed by a stated formula",
      "chosen so that a model meets published or measured figures",
      "a guess within the usual range, not measured or published for this case",
      "from a paper, a vendor or a repository, with its source"};
  return kMeanings[static_cast<int>(provenance)];
}

const MetricInfo& metric_info(Metric metric) {
  return kMetrics[static_cast<std::size_t>(metric)];
}
std::span<const MetricInfo> quant_metrics() {
  return kQuantMetrics;
}
std::span<const MetricInfo> array_metrics() {
  return kArrayMetrics;
}

const MetricInfo* find_metric(std::string_view key) {
  for (const std::span<const MetricInfo> table :
       {std::span<const MetricInfo>(kMetrics), quant_metrics(), array_metrics()}) {
    for (const MetricInfo& info : table) {
      if (key == info.key) return &info;
    }
  }
  return nullptr;
}

}  // namespace moescope

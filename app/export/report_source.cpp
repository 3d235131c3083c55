#include "app/export/report_source.h"

#include <QFileInfo>

#include "app/session/run_session.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/microscaling_workspace.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/router_workspace.h"
#include "app/workspaces/workspace_tabs.h"

namespace moescope {

ReportSource reportSource(const RunSession& session, Selection* selection, const ComparedRuns* compared,
                          const WorkspaceTabs& workspaces) {
  ReportSource source;
  source.selection = selection;
  source.compared = compared;
  if (session.hasConfig())
    for (int place = 0; place < static_cast<int>(session.histories().size()); ++place)
      source.configs.push_back(session.config(place));
  source.file = QFileInfo(session.path()).fileName();
  struct Wanted {
    const char* dock;
    const char* words;
  };
  const auto take = [](const Workspace* workspace, std::initializer_list<Wanted> list, QList<ReportPicture>& into) {
    for (const Wanted& wanted : list)
      if (Panel* panel = workspace->panel(wanted.dock)) into.append({panel, wanted.words});
  };
  constexpr Wanted kLoss{
      "dock_loss", "Cross-entropy over steps: the faint line is every step, the strong one smoothed. Lower is better."};
  if (session.histories().size() > 1)
    take(workspaces.compare(),
         {{"dock_compare_loss", kLoss.words},
          {"dock_compare_gap",
           "Loss of each run minus that of run A, smoothed. Gaps inside the green band are too small to matter; grey "
           "are "
           "the steps that are judged. Dashed: noise twins, which differ from A by chance alone."},
          {"dock_compare_load_difference",
           "How much more (orange) or less (blue) load each expert has than in run A at this step, in fair shares."},
          {"dock_compare_flips",
           "Share of tokens that the router sends to another set of experts than run A does at the same step."},
          {"dock_compare_gradient",
           "The run's gradient against that of an FP32 pass with the same weights and batch: how much the number "
           "formats change it."}},
         source.of_all);
  else
    take(workspaces.overview(), {kLoss}, source.of_all);
  take(workspaces.router(),
       {{"dock_router_load_over_time",
         "Load of the experts of one layer over steps: a lasting stripe is an expert that is always preferred."},
        {"dock_router_balance",
         "MaxVio, the fullest expert's load over the fair share minus 1: 0 is perfectly even. One batch (orange) "
         "always varies; the window (blue) shows what lasts."}},
       source.of_each);
  take(workspaces.microscaling(),
       {{"dock_micro_scale_histogram",
         "Blocks by their scale (a power of two) over the steps: drift shows values that grow or "
         "shrink."}},
       source.of_each);
  take(workspaces.overview(),
       {{"dock_expert_load", "Load of every expert at this step, in fair shares: 1 is even, 0 is dead."},
        {"dock_quant_error", "Signal to quantization noise of the operands of the GEMMs, in dB: higher is better."},
        {"dock_all_to_all",
         "Bytes from rank to rank of one layer's dispatch: a bright column is a rank that receives more than the "
         "others, which wait for it."}},
       source.of_each);
  return source;
}

}  // namespace moescope

// What the report of the open runs shows: their settings, and panels of the workspaces with a sentence on each.
#pragma once

#include "app/export/report.h"

namespace moescope {

class RunSession;
class WorkspaceTabs;

ReportSource reportSource(const RunSession& session, Selection* selection, const ComparedRuns* compared,
                          const WorkspaceTabs& workspaces);

}  // namespace moescope

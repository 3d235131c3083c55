// The Text workspace: which experts process which tokens of a text, how the experts specialise, and how stable the
// routing is.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class TokensAndSamplePanel;

class TextWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit TextWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override;
  void setLive(bool live);  // whether the probe text can be changed

 signals:
  void probeWanted(const QString& escaped);
  void modelWanted();  // a run or checkpoint, since the log has nothing that these panels show

 private:
  QWidget* makeNextSteps();  // in place of the panels if the log has no data for any of them
  TokensAndSamplePanel* tokens_panel_;
  QDockWidget *tokens_, *sample_, *specialisation_, *coactivation_, *stability_;
};

}  // namespace moescope

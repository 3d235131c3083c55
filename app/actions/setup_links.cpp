#include "app/actions/setup_links.h"

#include <QApplication>
#include <QClipboard>
#include <QMenu>
#include <algorithm>

#include "app/actions/run_control.h"
#include "app/session/run_session.h"
#include "app/workspaces/workspace_tabs.h"
#include "widgets/selection/selection.h"

namespace moescope {

std::optional<SharedSetup> sharedSetup(const RunSession& session, const Selection& selection,
                                       const WorkspaceTabs& workspaces) {
  if (!session.hasConfig() || session.histories().empty()) return std::nullopt;
  SharedSetup setup;
  setup.configs = session.configs();
  setup.workspace = workspaces.current()->name().toLower().toStdString();
  setup.run = selection.run();
  setup.layer = selection.layer();
  setup.expert = selection.expert();
  setup.step = selection.range().empty() ? -1 : selection.step();
  return setup;
}

SetupLinks::SetupLinks(const Context& context, RunControl* control) : Actions(context), control_(control) {
  connect(session_, &RunSession::opened, this, &SetupLinks::showOpened, Qt::QueuedConnection);
  connect(session_, &RunSession::failed, this, [this] { opening_setup_.reset(); });
  connect(session_, &RunSession::openingStarted, this, [this] {
    opening_setup_.reset();
    began_ = true;
  });
}

void SetupLinks::addActionsTo(QMenu* menu) {
  menu->addAction("Copy &set-up as a link", QKeySequence("Ctrl+Shift+C"), this, &SetupLinks::copy)
      ->setWhatsThis(
          "Copy the set-up as a link: the settings of the open runs, the workspace, layer, expert and step as a short "
          "text, moescope:..., which opens them again when it is pasted or dropped into a window");
  menu->addAction("&Paste set-up", QKeySequence("Ctrl+Shift+V"), this, &SetupLinks::paste)
      ->setWhatsThis("Train the runs of a copied set-up (moescope:...) up to its step");
}

void SetupLinks::copy() {
  const auto setup = sharedSetup(*session_, *selection_, *workspaces_);
  if (!setup) return messages_->warn("There is no set-up to copy: a log does not contain all settings of its run.");
  const QString link = QString::fromStdString(setup_link(*setup));
  if (link.isEmpty())
    return messages_->warn(
        "There is no set-up to copy: these runs cannot train side by side, since they read different batches.");
  QApplication::clipboard()->setText(link);
  const RunConfig& first = setup->configs.front();
  QString outside;
  if (!first.data.path.empty()) outside += "; the text that it trains on is not in it, only its path";
  if (!first.model.initial_weights.empty())
    outside += "; the weights that it begins with are not in it, only their path";
  messages_->say(QString("Copied the set-up, %1 characters: paste or drop it into another window%2")
                     .arg(QString::number(link.size()), outside),
                 8000);
}

void SetupLinks::paste() {
  const QString text = QApplication::clipboard()->text();
  if (!is_setup_link(text.left(1000).toStdString()))
    return messages_->warn("The clipboard contains no set-up: the text of a set-up begins with moescope:");
  open(text);
}

void SetupLinks::open(const QString& link) {
  messages_->warnOfErrors([&] {
    const SharedSetup setup = read_setup_link(link.toStdString());
    began_ = false;
    control_->startAll(setup.configs, setup.step < 0 ? RunControl::Start::running : RunControl::Start::paused);
    if (began_) opening_setup_ = setup;  // if not, the set-up was refused, or its runs train in groups
  });
}

void SetupLinks::showOpened() {
  if (!opening_setup_ || session_->opening() || !session_->isLive())
    return;  // while a run is being opened, this signal belongs to the previous run
  const SharedSetup setup = *std::exchange(opening_setup_, std::nullopt);
  workspaces_->bringUp(QString::fromStdString(setup.workspace));
  if (setup.run >= 0 && setup.run < to_int(selection_->histories().size())) selection_->setRun(setup.run);
  const RunInfo& info = selection_->history()->info();
  if (std::ranges::find(info.moe_layers, setup.layer) != info.moe_layers.end()) selection_->showLayer(setup.layer);
  if (setup.expert >= 0 && setup.expert < info.n_experts) selection_->setExpert(setup.expert);
  if (setup.step >= 0) control_->runUntil(setup.step + 1);
}

}  // namespace moescope

#include "app/actions/close_question.h"

#include <QMessageBox>
#include <QPushButton>

#include "app/look/messages.h"
#include "app/session/run_session.h"
#include "core/numerics/index.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

void askToClose(const Selection& selection, QWidget* window, const QString& what, const QString& button,
                const std::function<void()>& act) {
  QStringList names;
  for (std::size_t run = 0; run < selection.histories().size(); ++run)
    if (!selection.histories()[run]->steps().empty()) names << runName(selection, to_int(run));
  if (names.isEmpty()) return act();
  auto* box =
      new QMessageBox(QMessageBox::NoIcon, "MoEScope",
                      QString("%1 closes what is open: %2. Files on the disk stay.").arg(what, names.join(", ")),
                      QMessageBox::Cancel, frontOf(window));
  QPushButton* close_button = box->addButton(button, QMessageBox::AcceptRole);
  close_button->setObjectName("close_open_runs");
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setObjectName("close_question");
  QObject::connect(close_button, &QPushButton::clicked, window, act);
  box->open();
}

void askToCloseTraining(const RunSession& session, const Selection& selection, QWidget* window,
                        const std::function<void()>& act, bool for_training) {
  if (!session.isLive() || session.live()->status().step == 0) return act();
  askToClose(selection, window, for_training ? "The training" : "The log",
             for_training ? "Close and train" : "Close and open", act);
}

}  // namespace moescope

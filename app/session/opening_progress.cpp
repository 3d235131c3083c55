#include "app/session/opening_progress.h"

#include <QProgressDialog>

#include "app/session/run_session.h"

namespace moescope {

namespace {

constexpr int kOpeningSteps = 1000, kShowOpeningAfterMs = 700;

}  // namespace

void showOpenings(RunSession* session, QWidget* window) {
  QObject::connect(session, &RunSession::openingStarted, window, [session, window](const QString& what) {
    auto* bar = new QProgressDialog(what, "Cancel", 0, kOpeningSteps, window);
    bar->setMinimumDuration(kShowOpeningAfterMs);
    bar->setAutoReset(false);
    bar->setAutoClose(false);
    QObject::connect(bar, &QProgressDialog::canceled, session, &RunSession::cancelOpening);
    QObject::connect(session, &RunSession::openingProgress, bar,
                     [bar](double share) { bar->setValue(static_cast<int>(kOpeningSteps * share)); });
    QObject::connect(session, &RunSession::openingStarted, bar, &QObject::deleteLater);
    QObject::connect(session, &RunSession::opened, bar, &QObject::deleteLater);
    QObject::connect(session, &RunSession::failed, bar, &QObject::deleteLater);
    bar->setValue(0);
  });
}

}  // namespace moescope

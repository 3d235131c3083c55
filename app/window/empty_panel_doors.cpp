#include "app/window/empty_panel_doors.h"

#include <QEvent>
#include <QLabel>
#include <algorithm>

#include "app/bars/start_doors.h"
#include "app/session/run_session.h"
#include "widgets/panel/panel.h"

namespace moescope {

EmptyPanelDoors::EmptyPanelDoors(Panel* panel, RunSession* session, Selection* selection)
    : QObject(panel), panel_(panel), session_(session), selection_(selection), doors_(new StartDoors(panel)) {
  doors_->setObjectName("panel_doors");
  doors_->hide();
  panel_->installEventFilter(this);
  // Plots find out what they have to say while they paint.
  for (PlotFrame* plot : panel_->findChildren<PlotFrame*>()) plot->installEventFilter(this);
  connect(selection_, &Selection::dataChanged, this, &EmptyPanelDoors::look);
  connect(session_, &RunSession::openingStarted, this, &EmptyPanelDoors::look);
  connect(session_, &RunSession::failed, this, &EmptyPanelDoors::look, Qt::QueuedConnection);
}

bool EmptyPanelDoors::eventFilter(QObject* watched, QEvent* event) {
  const bool of_panel = watched == panel_;
  const bool news = of_panel ? event->type() == QEvent::Resize || event->type() == QEvent::Show
                             : event->type() == QEvent::Paint && !selection_->history() && doors_->isHidden();
  if (news) QMetaObject::invokeMethod(this, &EmptyPanelDoors::look, Qt::QueuedConnection);
  return false;
}

const QWidget* EmptyPanelDoors::notice() const {
  const QString notice = noRunNotice();
  for (const PlotFrame* plot : panel_->findChildren<PlotFrame*>())
    if (plot->isVisible() && plot->notice() == notice) return plot;
  for (const QLabel* label : panel_->findChildren<QLabel*>())
    if (label->isVisible() && label->text().contains(notice)) return label;
  return nullptr;
}

// Under the notice, which stands in the middle of its plot.
void EmptyPanelDoors::look() {
  const QWidget* says = selection_->history() || session_->opening() ? nullptr : notice();
  doors_->setVisible(says != nullptr);
  if (!says) return;
  const QRect room(says->mapTo(panel_, QPoint(0, 0)), says->size());
  doors_->fitInto(room.width() - 8);
  const QSize size = doors_->sizeHint().boundedTo(panel_->size());
  const int under = room.center().y() + panel_->fontMetrics().height();
  doors_->setGeometry({{room.left() + std::max(0, (room.width() - size.width()) / 2),
                        std::max(0, std::min(under, panel_->height() - size.height()))},
                       size});
  doors_->raise();
}

}  // namespace moescope

#include "app/actions/unit_actions.h"

#include <QActionGroup>
#include <QApplication>
#include <QMenu>
#include <QMessageBox>
#include <QPushButton>

#include "app/look/messages.h"
#include "app/session/run_session.h"
#include "app/session/start_program.h"
#include "core/numerics/kernel_names.h"

namespace moescope {

namespace {

// "AMX", "AVX-512 BF16", "OpenBLAS".
QString titleOf(MatrixUnit unit) {
  if (unit == MatrixUnit::none) return "OpenBLAS";
  return QString::fromStdString(matrix_unit_title(kMatrixUnitNames[static_cast<int>(unit)]));
}

QString textOf(const MatrixUnitChoice& choice) {
  if (choice.name == "auto") return QString("Automatic: %1 here").arg(titleOf(choice.unit));
  if (choice.name == "off") return "Off: OpenBLAS";
  return QString::fromStdString(matrix_unit_title(choice.name));
}

QString tipOf(const MatrixUnitChoice& choice) {
  if (!choice.lacks.empty()) {
    QString reason = QString::fromStdString(choice.lacks);
    return reason.replace(0, 1, reason.front().toUpper());
  }
  if (choice.name == "auto") return "What is faster than OpenBLAS in FP32: AMX, or AVX-512's BF16 on AMD";
  if (choice.name == "amx") return "Tiles of current Xeons";
  if (choice.name == "avx512_bf16") return "VDPBF16PS of Zen 4, Cooper Lake and later";
  return "All products in FP32. Values are the same, sums are taken in another order";
}

// What a new window shows of what is open in this one.
QStringList argumentsFor(const RunSession& session) {
  if (!session.attachedTo().isEmpty()) return {"--attach", session.attachedTo()};
  if (!session.isFollowing())
    return session.isLive() && !session.path().isEmpty() ? QStringList{session.path()} : session.paths();
  QStringList arguments;
  for (const QString& path : session.paths()) arguments << "--follow" << path;
  return arguments;
}

QString endOfRun(const RunSession& session) {
  if (!session.isLive()) return {};
  return session.path().isEmpty() ? "\n\nThe run in training is not recorded: a restart loses it."
                                  : "\n\nA restart ends the run in training and opens its recording; \"Continue this "
                                    "recording\" in the menu Run goes on from its newest checkpoint.";
}

}  // namespace

UnitActions::UnitActions(RunSession* session, Messages* messages, UnitsOfStart start,
                         std::vector<MatrixUnitChoice> choices)
    : QObject(messages->window()),
      session_(session),
      messages_(messages),
      start_(std::move(start)),
      choices_(std::move(choices)) {}

void UnitActions::addMenuTo(QMenu* run_menu) {
  QMenu* menu = run_menu->addMenu("Matrix &units");
  menu->setObjectName("matrix_units");
  menu->setToolTipsVisible(true);
  QAction* used =
      menu->addAction("In use: " + titleOf(matrix_unit()) + (start_.by.isEmpty() ? "" : ", by " + start_.by));
  used->setObjectName("units_in_use");
  used->setEnabled(false);
  used->setToolTip(start_.note.isEmpty() ? "What multiplies BF16 and quantized operands until this window is closed"
                                         : start_.note);
  menu->addSeparator();
  auto* group = new QActionGroup(menu);
  for (const MatrixUnitChoice& choice : choices_) group->addAction(addChoice(menu, choice));
}

QAction* UnitActions::addChoice(QMenu* menu, const MatrixUnitChoice& choice) {
  QAction* action = menu->addAction(textOf(choice));
  action->setObjectName("units_" + QString::fromUtf8(choice.name.data(), static_cast<qsizetype>(choice.name.size())));
  action->setCheckable(true);
  action->setChecked(keptMatrixUnits().toStdString() == choice.name);
  action->setEnabled(choice.lacks.empty());
  action->setToolTip(tipOf(choice));
  connect(action, &QAction::triggered, this, [this, choice] { choose(choice); });
  return action;
}

void UnitActions::choose(const MatrixUnitChoice& choice) {
  keepMatrixUnits(QString::fromStdString(std::string(choice.name)));
  if (choice.unit == matrix_unit())
    messages_->say(titleOf(choice.unit) + " is in use already; the choice is kept for the next starts");
  else
    offerRestart(choice);
}

void UnitActions::offerRestart(const MatrixUnitChoice& choice) {
  auto* box = new QMessageBox(
      QMessageBox::Question, "Matrix units",
      QString("Matrix units are chosen when MoEScope starts: %1 is used from the next start on, and %2 until this "
              "window is closed.%3")
          .arg(titleOf(choice.unit), titleOf(matrix_unit()), endOfRun(*session_)),
      QMessageBox::NoButton, messages_->window());
  box->setObjectName("restart_for_units");
  box->setAttribute(Qt::WA_DeleteOnClose);
  QPushButton* now = box->addButton("&Restart now", QMessageBox::AcceptRole);
  now->setObjectName("restart_now");
  box->setDefaultButton(box->addButton("&Later", QMessageBox::RejectRole));
  connect(now, &QPushButton::clicked, this, &UnitActions::restart);
  box->open();
}

// Once this window is gone, and with it the training and its recording.
void UnitActions::restart() {
  connect(messages_->window(), &QObject::destroyed, qApp, [arguments = argumentsFor(*session_)] {
    if (!startProgram(arguments, {{kMatrixUnitsVariable, ""}}))
      qWarning("%s cannot be started", qPrintable(QCoreApplication::applicationFilePath()));
  });
  messages_->window()->close();
}

}  // namespace moescope

// The editor of one key of the run config, described by the key's row in config_fields().
#pragma once

#include <QAbstractSpinBox>
#include <QDialog>
#include <QLineEdit>
#include <QString>
#include <QWidget>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/operand_recipes.h"
#include "core/config/run_config.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QMenu;
class QPushButton;
class QTimer;

namespace moescope {

// The context menu "Compare with..." of a setting: values for a twin of run A. A click on a value trains the twin.
// Returns the offered values: the other choices; the other state of a switch; or half, twice, a tenth and ten times a
// number. Values that are not allowed are left out.
std::vector<ConfigValue> twinValues(const ConfigField& field, const ConfigValue& current);

struct TwinOffers {
  std::function<ConfigValue()> present;            // the present value
  std::function<bool()> possible;                  // true if a twin can be trained now
  std::function<void(const ConfigValue&)> chosen;  // a value was chosen
  std::function<void()> other;                     // "another value" was chosen
};
void fillTwinMenu(QMenu* menu, const ConfigField& field, const TwinOffers& offers);
// Installs the context menu on `part`.
void offerTwins(QWidget* part, const ConfigField& field, TwinOffers offers);

// A table of the recipes of single operands: a combo box for each class of GEMMs and each operand, and a line for
// entries that concern single layers or GEMMs.
class OperandsDialog : public QDialog {
  Q_OBJECT

 public:
  explicit OperandsDialog(const QString& text, QWidget* parent = nullptr);  // unreadable text counts as empty
  QComboBox* choice(GemmClass gemm_class, OperandRole operand) const {
    return choices_[static_cast<std::size_t>(gemm_class)][static_cast<std::size_t>(operand)];
  }
  QLineEdit* single() const { return single_; }  // line for entries that concern single layers or GEMMs
  QString text() const;

 signals:
  void chosen(QString text);

 private:
  void checkSingle();

  std::array<std::array<QComboBox*, 3>, kNumGemmClasses> choices_{};
  QLineEdit* single_ = nullptr;
  QLabel* problem_ = nullptr;
  QPushButton* ok_ = nullptr;
};

// A number as text, with arrows whose step suits its magnitude. Any text can be typed: the owner of the editor reports
// text that is no number or out of range; no value is clamped silently.
// The next sensible value up (+1) or down (-1).
//   real numbers   1-2-5 steps (0.001, 0.002, 0.005, 0.01); from 0 the first is `tiny`; 0.05 apart between 0.1 and 1
//                  when the largest allowed is 1
//   whole numbers  1 below 16, then an eighth of a number made of large powers of two (128 -> 144), else a tenth of
//                  its decimal magnitude (2000 -> 2100)
double nextReal(double value, int direction, double max, double tiny = 1e-4);
std::int64_t nextWhole(std::int64_t value, int direction);

class NumberEdit : public QAbstractSpinBox {
  Q_OBJECT

 public:
  NumberEdit(bool whole, double min, double max, QWidget* parent = nullptr);

  void setUnit(const QString& unit);  // shown inside the field at the right, if it fits
  void setNumber(double value) { show(QString::number(value, 'g', QLocale::FloatingPointShortest)); }
  void setWhole(std::int64_t value) { show(QString::number(value)); }
  std::optional<double> number() const;       // nullopt: not a number
  std::optional<std::int64_t> whole() const;  // nullopt: not a whole number

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  void edited();     // on every change of the text by the user
  void committed();  // Enter, focus lost, or a pause after stepping

 protected:
  void stepBy(int steps) override;
  StepEnabled stepEnabled() const override;
  QValidator::State validate(QString& input, int& pos) const override;
  void wheelEvent(QWheelEvent* event) override;
  bool event(QEvent* event) override;

 private:
  bool isForTheWindow(const QKeyEvent& key) const;
  void show(const QString& text) {
    if (lineEdit()->text() != text) lineEdit()->setText(text);
    dirty_ = false;
  }
  void commit();
  void placeUnit();

  QLabel* unit_;
  bool whole_;
  double min_, max_;
  bool dirty_ = false;
  QTimer* commit_timer_;
};

QString fieldToolTip(const ConfigField& field);  // rich text: key, help, range, default
// Adds a choice in words: the data of the item is its key, and the tool tip has the key.
void addChoice(QComboBox* box, const QString& key, const QString& about = {});

class FieldEditor : public QWidget {
  Q_OBJECT

 public:
  explicit FieldEditor(const ConfigField& field, QWidget* parent = nullptr);

  const ConfigField& field() const { return field_; }
  void setValue(const ConfigValue& value);  // sets the value without a signal
  void setUnit(const QString& unit);        // unit of a number, shown inside its field
  // Enables the editor if a run with this config uses the setting; else the tool tip says why it does not. nullptr: no
  // config is known.
  void offer(const RunConfig* config, bool enabled = true);
  void clear();                              // shows that no value is known, without a signal
  std::optional<ConfigValue> value() const;  // nullopt: the text does not have the right type
  QString problem() const;                   // why this value alone is not valid; empty: it is valid

 signals:
  void edited();     // on every change by the user
  void committed();  // the change is complete: Enter, focus lost, or a choice made
  void focused();    // the editor got the keyboard focus or the pointer

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QWidget* makeEditor();
  QWidget* makeCheckBox();
  QWidget* makeChoice();
  QWidget* makeNumber(bool whole);
  QWidget* makeText();
  void browse(bool folder);
  void chooseTokenizer();
  void chooseOperands();
  void enterText(const QString& text);  // sets the text as if the user had typed it

  const ConfigField& field_;
  ConfigValue type_;  // a value of the field's type, used for the type alone
  QCheckBox* check_ = nullptr;
  QComboBox* choice_ = nullptr;
  NumberEdit* number_ = nullptr;
  QLineEdit* text_ = nullptr;
};

}  // namespace moescope

// The editor of one key of the run config, described by the key's row in config_fields().
#pragma once

#include <QWidget>
#include <optional>

#include "core/config/config_field.h"
#include "core/config/run_config.h"

class QCheckBox;
class QComboBox;
class QLineEdit;

namespace moescope {

class NumberEdit;

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

// Exercises go-mssqldb against the server named by the environment and prints what it saw as JSON:
// one member for each check, which the test compares. An error of the server is its number and text.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

var table = os.Getenv("TABLE")

func address(options map[string]string) string {
	password := os.Getenv("PASSWORD")
	if wrong, given := options["password"]; given {
		password = wrong
	}
	query := url.Values{"database": {os.Getenv("DATABASE")}, "encrypt": {"disable"}}
	for name, value := range options {
		if name != "password" {
			query.Set(name, value)
		}
	}
	return (&url.URL{
		Scheme:   "sqlserver",
		User:     url.UserPassword(os.Getenv("USER_NAME"), password),
		Host:     "127.0.0.1:" + os.Getenv("PORT"),
		RawQuery: query.Encode(),
	}).String()
}

func told(err error) any {
	var server mssql.Error
	if errors.As(err, &server) {
		return map[string]any{"number": server.Number, "text": server.Message, "class": server.Class}
	}
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return nil
}

func login(options map[string]string) any {
	db, err := sql.Open("sqlserver", address(options))
	if err != nil {
		return told(err)
	}
	defer db.Close()
	var name, user string
	if err := db.QueryRow("SELECT DB_NAME(), SUSER_SNAME()").Scan(&name, &user); err != nil {
		return told(err)
	}
	return []string{name, user}
}

func rows(db interface {
	Query(string, ...any) (*sql.Rows, error)
}, query string, arguments ...any) any {
	found, err := db.Query(query, arguments...)
	if err != nil {
		return told(err)
	}
	defer found.Close()
	columns, _ := found.Columns()
	result := [][]any{}
	for found.Next() {
		values := make([]any, len(columns))
		targets := make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := found.Scan(targets...); err != nil {
			return told(err)
		}
		for i, value := range values {
			switch typed := value.(type) {
			case []byte:
				values[i] = fmt.Sprintf("%x", typed)
			case time.Time:
				values[i] = typed.Format(time.RFC3339Nano)
			}
		}
		result = append(result, values)
	}
	if err := found.Err(); err != nil {
		return told(err)
	}
	return result
}

func roundTrip(db *sql.DB) any {
	at := time.Date(9999, 12, 31, 23, 59, 59, 999999900, time.UTC)
	zoned := time.Date(2026, 1, 2, 3, 4, 5, 123456700, time.FixedZone("", 19800))
	values := []struct {
		declared string
		value    any
	}{
		{"bit", true},
		{"tinyint", 255},
		{"int", -2147483648},
		{"bigint", int64(-9223372036854775808)},
		{"float", -2.25e300},
		{"real", 1.5},
		{"varchar(20)", mssql.VarChar("abc")},
		{"nvarchar(20)", "日本 🎉"},
		{"nvarchar(20)", ""},
		{"nvarchar(max)", mssql.NVarCharMax("日")},
		{"varbinary(20)", []byte{0, 1, 255}},
		{"datetime2(7)", at},
		{"datetimeoffset(7)", zoned},
		{"decimal(38,10)", "1234567890123456789012345678.0123456789"},
		{"nvarchar(5)", nil},
	}
	result := map[string]any{}
	connection, err := db.Conn(context.Background())
	if err != nil {
		return told(err)
	}
	defer connection.Close()
	for i, item := range values {
		name := fmt.Sprintf("%02d %s", i, item.declared)
		text := fmt.Sprintf("DECLARE @t TABLE (v %s); INSERT INTO @t VALUES (@p1); SELECT v FROM @t", item.declared)
		found, err := connection.QueryContext(context.Background(), text, item.value)
		if err != nil {
			result[name] = told(err)
			continue
		}
		var value any
		for found.Next() {
			err = found.Scan(&value)
		}
		if err == nil {
			err = found.Err()
		}
		found.Close()
		if err != nil {
			result[name] = told(err)
			continue
		}
		switch typed := value.(type) {
		case []byte:
			if item.declared == "varbinary(20)" {
				value = fmt.Sprintf("%x", typed)
			} else {
				value = string(typed)
			}
		case time.Time:
			value = typed.Format(time.RFC3339Nano)
		}
		result[name] = value
	}
	return result
}

func transaction(db *sql.DB) any {
	for _, keep := range []bool{false, true} {
		tx, err := db.Begin()
		if err != nil {
			return told(err)
		}
		id := 1
		if keep {
			id = 2
		}
		if _, err := tx.Exec("INSERT INTO "+table+" (id) VALUES (@p1)", id); err != nil {
			return told(err)
		}
		if keep {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			return told(err)
		}
	}
	return rows(db, "SELECT id FROM "+table)
}

func timeout(db *sql.DB) any {
	limited, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := db.ExecContext(limited, "WAITFOR DELAY '00:01:00'")
	return []any{errors.Is(err, context.DeadlineExceeded), rows(db, "SELECT 1")}
}

func procedure(db *sql.DB) any {
	text := "CREATE PROCEDURE dbo.p_" + table + " @a int, @b int OUTPUT AS SET @b = @a * 2; RETURN 3"
	if _, err := db.Exec(text); err != nil {
		return told(err)
	}
	var doubled int64
	var status mssql.ReturnStatus
	_, err := db.Exec("p_"+table, sql.Named("a", 21), sql.Named("b", sql.Out{Dest: &doubled}), &status)
	if err != nil {
		return told(err)
	}
	return []int64{doubled, int64(status)}
}

func bulk(db *sql.DB) any {
	name := table + "_bulk"
	if _, err := db.Exec("CREATE TABLE " + name + " (id int PRIMARY KEY, name nvarchar(20))"); err != nil {
		return told(err)
	}
	statement, err := db.Prepare(mssql.CopyIn(name, mssql.BulkOptions{}, "id", "name"))
	if err != nil {
		return told(err)
	}
	for i := 0; i < 100; i++ {
		if _, err := statement.Exec(i, fmt.Sprintf("n%d", i)); err != nil {
			return told(err)
		}
	}
	if _, err := statement.Exec(); err != nil {
		return told(err)
	}
	if err := statement.Close(); err != nil {
		return told(err)
	}
	return rows(db, "SELECT COUNT(*), MAX(name) FROM "+name)
}

type typedRow struct {
	Id   int32
	Name *string
	Note string `tvp:"-"`
	At   time.Time
}

func tableParameter(db *sql.DB) any {
	kind := table + "_type"
	if _, err := db.Exec("CREATE TYPE dbo." + kind +
		" AS TABLE (id int PRIMARY KEY, name nvarchar(20), at datetimeoffset(7))"); err != nil {
		return told(err)
	}
	name := "één"
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	given := mssql.TVP{
		TypeName: "dbo." + kind,
		Value:    []typedRow{{1, &name, "", at}, {2, nil, "", at.AddDate(1, 0, 0)}},
	}
	return rows(db, "SELECT id, name, CONVERT(varchar(40), at) FROM @p1 ORDER BY id DESC", given)
}

func main() {
	db, err := sql.Open("sqlserver", address(nil))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE " + table + " (id int PRIMARY KEY)"); err != nil {
		panic(err)
	}
	prepared := []any{}
	statement, err := db.Prepare("SELECT @p1 + 1")
	if err != nil {
		panic(err)
	}
	for i := 0; i < 3; i++ {
		var value int
		if err := statement.QueryRow(i).Scan(&value); err != nil {
			prepared = append(prepared, told(err))
		}
		prepared = append(prepared, value)
	}
	_, duplicate := db.Exec("INSERT INTO " + table + " VALUES (7); INSERT INTO " + table + " VALUES (7)")
	_, missing := db.Exec("SELECT * FROM dbo.nowhere")
	_, removed := db.Exec("DELETE FROM " + table)
	report := map[string]any{
		"login disable": login(nil),
		"login true":    login(map[string]string{"encrypt": "true", "TrustServerCertificate": "true"}),
		"login strict": login(map[string]string{
			"encrypt": "strict", "certificate": os.Getenv("CERTIFICATE"),
			"hostNameInCertificate": "localhost",
		}),
		"login wrong": login(map[string]string{"password": "wrong"}),
		"round trip":  roundTrip(db),
		"prepared":    prepared,
		"transaction": transaction(db),
		"duplicate":   told(duplicate),
		"missing":     told(missing),
		"removed":     told(removed),
		"timeout":     timeout(db),
		"procedure":   procedure(db),
		"bulk":        bulk(db),
		"table":       tableParameter(db),
		"cdc": rows(db, "SELECT __$operation, id, name FROM cdc.fn_cdc_get_all_changes_dbo_Tracked("+
			"sys.fn_cdc_get_min_lsn(@p1), sys.fn_cdc_get_max_lsn(), N'all')", "dbo_Tracked"),
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		panic(err)
	}
}

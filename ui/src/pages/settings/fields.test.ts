import { describe, expect, it } from "vitest";

import { FIELDS, parseField, type NumberField, type UrlField } from "./fields";

const field = (key: string) => FIELDS.find((one) => one.key === key) as NumberField | UrlField;

describe("settings", () => {
  it("numbers stay in their range and become stored units", () => {
    expect(parseField(field("mixed_port"), "2080")).toBe(2_080);
    for (const wrong of ["", "80", "65536", "2080.5", "-1", "port", "1e4"]) expect(parseField(field("mixed_port"), wrong), wrong).toBeNull();
    expect(parseField(field("test_timeout_ms"), "5")).toBe(5_000);
  });

  it("addresses are http or https", () => {
    expect(parseField(field("test_url"), "http://example.com/generate_204")).toBe("http://example.com/generate_204");
    for (const wrong of ["example.com", "ftp://example.com/", "javascript:alert(1)", ""]) expect(parseField(field("test_url"), wrong), wrong).toBeNull();
  });
});

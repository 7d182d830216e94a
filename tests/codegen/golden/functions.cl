__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void step_0(__global float* restrict in0_ptr, __global float* restrict out_ptr) {
  const int group_x = (int)get_group_id(0);
  const int local_x = (int)get_local_id(0);
  float t_ptr[1];
  if (((group_x * 16) + (local_x >> 3)) < 25) {
    float t = in0_ptr[((group_x * 128) + local_x)];
    float t_1 = (((convert_int((t <= 0.000000e+00f)))) ? ((0.000000e+00f - t)) : (t));
    float t_2 = log1p((((convert_int((t <= 0.000000e+00f)))) ? ((0.000000e+00f - t)) : (t)));
    float t_3 = ((5.000000e-01f * tanh((5.000000e-01f * log1p((((convert_int((t <= 0.000000e+00f)))) ? ((0.000000e+00f - t)) : (t)))))) + 5.000000e-01f);
    float t_4 = erf(t);
    float t_5 = fmod(((5.000000e-01f * tanh((5.000000e-01f * log1p((((convert_int((t <= 0.000000e+00f)))) ? ((0.000000e+00f - t)) : (t)))))) + 5.000000e-01f), erf(t));
    t_ptr[0] = (((convert_int((((fmod(((5.000000e-01f * tanh((5.000000e-01f * log1p((((convert_int((t <= 0.000000e+00f)))) ? ((0.000000e+00f - t)) : (t)))))) + 5.000000e-01f), erf(t)) < 0.000000e+00f) && (0.000000e+00f < erf(t))) || ((0.000000e+00f < fmod(((5.000000e-01f * tanh((5.000000e-01f * log1p((((convert_int((t <= 0.000000e+00f)))) ? ((0.000000e+00f - t)) : (t)))))) + 5.000000e-01f), erf(t))) && (erf(t) < 0.000000e+00f)))))) ? ((fmod(((5.000000e-01f * tanh((5.000000e-01f * log1p((((convert_int((t <= 0.000000e+00f)))) ? ((0.000000e+00f - t)) : (t)))))) + 5.000000e-01f), erf(t)) + erf(t))) : (fmod(((5.000000e-01f * tanh((5.000000e-01f * log1p((((convert_int((t <= 0.000000e+00f)))) ? ((0.000000e+00f - t)) : (t)))))) + 5.000000e-01f), erf(t))));
    float t_6 = rint(t_ptr[0]);
    out_ptr[((group_x * 128) + local_x)] = (((convert_int((t_6 <= 5.000000e-01f)))) ? (5.000000e-01f) : (t_6));
  }
}
